"""The answers of `explain` and `explain_refusal`, and their wording.

What: an `Expected` is one thing that may come next. An `Explanation` says what may come next at a place in a
text. A `Refusal` says where and why a text is refused. `Located` is what readings of the text find.
When: made by `hybrid.explain.position` and `hybrid.explain.refusal`. ``str`` gives sentences for people.
Limits: plain data. The caller owns it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from hybrid.explain.characters import quoted, shown, spans

Kind = Literal["key", "literal", "characters", "pattern", "terminal", "bytes"]

ANY_CASE = "in either case"

BY_ID = "a token that the grammar names by its id"

NAMED_IN_SENTENCES = 8
"""How many things a sentence lists."""


USUAL = {("basic_string", '"'): "a string", ("basic_string_sub", '"'): "the string's closing quotation mark"}
"""Names for literals in rules that XGrammar's converter of JSON schemas adds."""


@dataclass(frozen=True)
class Expected:
    """One thing that may come next.

    Attributes:
        kind: "key": a key of a JSON object; "literal": a literal of the grammar; "characters": a character of
            a set; "pattern": text that matches a regular expression; "terminal": a terminal of a Lark
            grammar;
            "bytes": other bytes, for which the grammar has no name.
        text: the key without quotation marks, the literal, the set, the pattern, or the terminal's name.
        read: how many bytes of it have been read; for a terminal, 1 if it has been started, else 0.
        rules: the names of the rules that contain it, innermost first. If several rules call one of them, one
            is named.
        detail: for a terminal its pattern; for a literal `ANY_CASE` if upper and lower case are both allowed.
    """

    kind: Kind
    text: str
    read: int = 0
    rules: tuple[str, ...] = ()
    detail: str = ""

    def __str__(self) -> str:
        """Describe it in words, without the rules."""
        usual = USUAL.get((self.rules[0], self.text)) if self.rules and self.kind == "literal" else None
        if usual is not None:
            return usual
        if self.kind == "key":
            words = f"key {quoted(self.text)}"
        elif self.kind == "literal":
            words = quoted(self.text)
        elif self.kind == "pattern":
            return f"text that matches {shown(self.text)}"
        else:
            words = shown(self.text)
        return f"the rest of {words}" if self.read else words

    @property
    def brief(self) -> str:
        """Describe it in words, without its kind."""
        return str(self).replace("key ", "", 1) if self.kind == "key" else str(self)


Rest: TypeAlias = "bytes | frozenset[int] | None"
"""How the matcher checks an expected thing: by a text that it must allow, by a set of bytes of which it must
allow one, or not at all."""


class Located(NamedTuple):
    """Words for a place, before the matcher has checked them.

    Attributes:
        expected: what may come next.
        rest: how the matcher checks each thing.
        rules: the names of the rules that contain the place, outermost first.
        omitted: what is missing, and why; empty if nothing is.
        cut_short: whether the time ran out.
    """

    expected: list[Expected]
    rest: dict[Expected, Rest]
    rules: tuple[str, ...] = ()
    omitted: str = ""
    cut_short: bool = False


@dataclass(frozen=True)
class Explanation:
    """What a grammar allows at a place in a text.

    Attributes:
        n_tokens, n_allowed: number of ids in the vocabulary, and how many of them the mask allows.
        has_ended: whether the sequence has ended, so that nothing may follow.
        may_end: whether the text may end here.
        forced: text that must come next; empty if there is a choice.
        next_bytes: exactly the bytes that may come next.
        expected: what may come next, in words.
        n_more: how many more things may come next than `expected` lists.
        rules: the names of the rules that contain this place, whatever follows, outermost first. Of more than
            400, the innermost ones.
        pointer: for JSON schemas, the JSON pointer of the value that contains this place; else None.
        omitted: what is missing from this answer, and why.
        cut_short: whether the time ran out. Then `n_allowed` may be 0 and `may_end` False, and `next_bytes`,
            `expected`, `forced` and `rules` may be incomplete.
    """

    n_tokens: int
    n_allowed: int
    has_ended: bool
    may_end: bool
    forced: str
    next_bytes: frozenset[int]
    expected: tuple[Expected, ...]
    n_more: int = 0
    rules: tuple[str, ...] = ()
    pointer: str | None = None
    omitted: tuple[str, ...] = ()
    cut_short: bool = False

    @property
    def sentence(self) -> str:
        """What may come next, in one line: ``expected key "name" or white space``."""
        if self.has_ended:
            return "nothing may follow, because the text has ended"
        words = list(dict.fromkeys(str(one) for one in self.expected))
        n_left = self.n_more + max(0, len(words) - NAMED_IN_SENTENCES)
        words = words[:NAMED_IN_SENTENCES]
        if n_left:
            words.append(f"{n_left} more")
        if self.may_end:
            words.append("the end of the text")
        if not words and self.cut_short:
            return "there was no time to find out what is expected"
        if not words:
            if self.next_bytes:
                return f"expected {spans(self.next_bytes)}"
            return f"expected {BY_ID}" if self.n_allowed else "nothing may follow"
        listed = words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
        return f"expected {listed}"

    @property
    def place(self) -> str:
        """The place in words: a JSON pointer, or rules; empty if neither is known."""
        if self.pointer is not None:
            return f"at {shown(self.pointer)}" if self.pointer else "at the top level"
        return f"in {shown(' > '.join(self.rules[-3:]))}" if self.rules else ""

    def __str__(self) -> str:
        lines = [self.sentence + (f" ({self.place})" if self.place else "")]
        if not self.has_ended and (self.n_allowed or not self.cut_short):
            lines.append(f"{self.n_allowed:,} of {self.n_tokens:,} tokens are allowed")
        if self.forced:
            lines.append(f"{quoted(self.forced)} must come next")
        if self.rules:
            lines.append(f"inside rules: {shown(' > '.join(self.rules), 400)}")
        lines += [f"note: {one}" for one in self.omitted]
        if self.cut_short:
            lines.append("this answer is incomplete, because the time ran out")
        return "\n".join(lines)


@dataclass(frozen=True)
class Refusal:
    """Where and why a text is refused.

    Attributes:
        offset: offset of the first refused byte, from 0; the length of the text if it ends too early.
        line, column: the place of that byte, both from 1; columns count characters.
        byte: that byte; None if the text ends too early.
        found: some characters of the text from that place on.
        before: some characters of the text before that place.
        explanation: what is expected there.
        cut_short: whether the time ran out before a refused byte was found. Then the text before `offset` is
            allowed, and nothing is known of the rest.
    """

    offset: int
    line: int
    column: int
    byte: int | None
    found: str
    before: str
    explanation: Explanation
    cut_short: bool = False

    def __str__(self) -> str:
        where = f"line {self.line}, column {self.column} (byte {self.offset:,})"
        place = f", {self.explanation.place}" if self.explanation.place else ""
        if self.cut_short:
            return f"the text is allowed up to {where}; there was no time to check the rest"
        if self.byte is None:
            return f"the text ends too early, at {where}{place}: {self.explanation.sentence}"
        return f"{quoted(self.found)} is refused at {where}{place}: {self.explanation.sentence}"
