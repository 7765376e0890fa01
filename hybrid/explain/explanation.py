"""What is told of a place in a text: the answers of `explain` and `find_refusal`, and their wording.

What: `Expected`, one thing that may follow; `Explanation`, a place; `Refusal`, a place where a text is
refused.
When: made by `hybrid.explain.position` and `hybrid.explain.refusal`; ``str`` gives sentences for people.
Limits: plain data, of the caller's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hybrid.explain.characters import quoted, shown, spans

Kind = Literal["key", "literal", "characters", "pattern", "terminal", "bytes"]

ANY_CASE = "in either case"

NAMED_IN_SENTENCES = 8
"""Things that may follow that a sentence lists."""


USUAL = {("basic_string", '"'): "a string", ("basic_string_sub", '"'): "the string's closing quotation mark"}
"""What XGrammar's converter of JSON schemas means by a literal in a rule of its own."""


@dataclass(frozen=True)
class Expected:
    """One thing that may follow.

    Attributes:
        kind: "key": a key of a JSON object; "literal": text as the grammar has it; "characters": one of a set
            of characters; "pattern": text of a regular expression; "terminal": of a Lark grammar, by its
            name; "bytes": what may follow besides, where the grammar's own words for it are not known.
        text: the key without its quotation marks, the literal, the set, the pattern, the name.
        read: bytes of it that are read already; of a terminal 1 where it is being read, else 0.
        rules: names of the rules that it stands in, innermost first.
        detail: of a terminal its pattern; of a literal `ANY_CASE` where letters of either case will do.
    """

    kind: Kind
    text: str
    read: int = 0
    rules: tuple[str, ...] = ()
    detail: str = ""

    def __str__(self) -> str:
        """In words, without the rules."""
        usual = USUAL.get((self.rules[0], self.text)) if self.rules and self.kind == "literal" else None
        if usual is not None:
            return usual
        if self.kind == "key":
            words = f"key {quoted(self.text)}"
        elif self.kind == "literal":
            words = quoted(self.text)
        elif self.kind == "pattern":
            return f"text of the pattern {shown(self.text)}"
        else:
            words = shown(self.text)
        return f"the rest of {words}" if self.read else words

    @property
    def brief(self) -> str:
        """In words, where the kind stands beside it."""
        return str(self).replace("key ", "", 1) if self.kind == "key" else str(self)


@dataclass(frozen=True)
class Explanation:
    """What a grammar allows at a place.

    Attributes:
        n_tokens, n_allowed: ids of the vocabulary, and how many of these the mask allows.
        has_ended: the sequence has ended, and nothing follows.
        may_end: the text is whole as it is.
        forced: text that has to follow; empty where there is a choice.
        next_bytes: the bytes that may come next, exactly.
        expected: what may follow, in words.
        n_more: how many more of these there are than `expected` lists.
        rules: names of the rules that are being read whatever follows, outermost first.
        pointer: in texts of a JSON schema, the JSON pointer of the value that is read; None elsewhere.
        unsaid: what could not be told, and why.
        cut_short: the time was up: `n_allowed` may be 0 and `may_end` False, and `next_bytes`, `expected`,
            `forced` and `rules` may lack what was not found yet.
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
    unsaid: tuple[str, ...] = ()
    cut_short: bool = False

    @property
    def sentence(self) -> str:
        """What is expected, in one line: ``expected is key "name", or white space``."""
        if self.has_ended:
            return "nothing may follow: the text has ended"
        words = list(dict.fromkeys(str(one) for one in self.expected))
        n_left = self.n_more + max(0, len(words) - NAMED_IN_SENTENCES)
        words = words[:NAMED_IN_SENTENCES]
        if n_left:
            words.append(f"{n_left} more")
        if self.may_end:
            words.append("the end of the text")
        if not words and self.cut_short:
            return "what is expected was not found in time"
        if not words:
            return f"expected is {spans(self.next_bytes)}" if self.next_bytes else "nothing may follow"
        listed = words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
        return f"expected is {listed}"

    @property
    def place(self) -> str:
        """Where it is, by names: a JSON pointer, or the rules; empty where neither is known."""
        if self.pointer is not None:
            return f"at {shown(self.pointer)}" if self.pointer else "at the top of the document"
        return f"in {shown(' > '.join(self.rules[-3:]))}" if self.rules else ""

    def __str__(self) -> str:
        lines = [self.sentence + (f" ({self.place})" if self.place else "")]
        if not self.has_ended and (self.n_allowed or not self.cut_short):
            lines.append(f"{self.n_allowed:,} of {self.n_tokens:,} tokens are allowed")
        if self.forced:
            lines.append(f"{quoted(self.forced)} is forced")
        if self.rules:
            lines.append(f"being read: {shown(' > '.join(self.rules), 400)}")
        lines += [f"not told: {one}" for one in self.unsaid]
        if self.cut_short:
            lines.append("this answer is cut short: the time was up")
        return "\n".join(lines)


@dataclass(frozen=True)
class Refusal:
    """Where and why a text is refused.

    Attributes:
        offset: of the first byte that is refused, from 0; the length of the text where it ends too early.
        line, column: of that byte, both from 1; columns count characters.
        byte: that byte; None: the text ends too early.
        found: what stands there, some characters of it.
        before: the text before it, some characters.
        explanation: what is expected there.
        cut_short: the time was up before a byte was found that is refused: the text before `offset` is read,
            of the rest nothing is known.
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
            return f"the text is read up to {where}; whether the rest is refused was not found in time"
        if self.byte is None:
            return f"the text ends too early, at {where}{place}: {self.explanation.sentence}"
        return f"{quoted(self.found)} is refused at {where}{place}: {self.explanation.sentence}"
