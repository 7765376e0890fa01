"""The command ``python -m hybrid try``: you type a text, and see below it what may come next.

What: `try_grammar` opens the screen. `Board` has the content of the screen, and works without one.
When: called by `hybrid.cli.commands`, for authors of schemas who want to know why a text is refused.
Limits: needs prompt_toolkit (the extra "try"). Each key press explains the whole text again, which takes a
millisecond for JSON.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from rich.console import Console

from equivalence.errors import NotInstalled
from hybrid.api.compiler import GrammarCompiler
from hybrid.api.matcher import GrammarMatcher
from hybrid.api.parallel import compiled_from
from hybrid.cli.grammar_source import Named
from hybrid.cli.vocabulary_spec import load_vocabulary
from hybrid.compiled import CompiledGrammar
from hybrid.explain import Explanation, Refusal
from hybrid.explain.characters import quoted, shown

MOST_LINES = 14
"""Most expected things that are listed."""

Fragments: TypeAlias = Any
"""prompt_toolkit's lists of (style, text)."""

STYLES = {
    "title": "bold", "good": "ansigreen", "bad": "ansired bold", "dim": "ansibrightblack",
    "key": "bold ansicyan", "refused": "bg:ansired ansiwhite", "beyond": "ansired",
}  # fmt: skip


class Board:
    """What the screen says about the text.

    Args:
        compiled: the grammar.

    Attributes:
        refusal: where the text is refused; None if all of it is allowed.
        told: what is expected after the text, or at the place where it is refused.
    """

    def __init__(self, compiled: CompiledGrammar) -> None:
        self._matcher = GrammarMatcher(compiled)
        self._text: str | None = None
        self.refusal: Refusal | None = None
        self.told: Explanation = self._matcher.explain()
        self.read("")

    def read(self, text: str) -> None:
        """Read a text, and set `refusal` and `told`."""
        if text == self._text:
            return
        self._text = text
        self._matcher.reset()
        data = text.encode("utf-8", "replace")
        self.refusal = self._matcher.explain_refusal(data) if data else None
        if self.refusal is not None:
            self.told = self.refusal.explanation
            return
        if data:
            self._matcher.accept_string(data)
        self.told = self._matcher.explain()

    @property
    def n_read(self) -> int:
        """How many characters of the text are allowed."""
        text = self._text or ""
        if self.refusal is None:
            return len(text)
        return len(text.encode("utf-8", "replace")[: self.refusal.offset].decode("utf-8", "ignore"))

    def fragments(self) -> Fragments:
        """Return the lines below the text."""
        told = self.told
        if self.refusal is not None and self.refusal.cut_short:
            lines: Fragments = [("class:bad", str(self.refusal))]
        elif self.refusal is not None:
            what = f"{quoted(self.refusal.found[:1])} is refused at line {self.refusal.line}, column "
            lines = [("class:bad", what + str(self.refusal.column))]
        elif told.may_end:
            lines = [("class:good", "complete: the text may end here")]
        else:
            lines = [("class:title", "allowed so far")]
        lines.append(("class:dim", f"   {told.n_allowed:,} of {told.n_tokens:,} tokens allowed"))
        if told.place:
            lines.append(("class:dim", f"   {told.place}"))
        if told.forced and self.refusal is None:
            lines.append(("class:dim", f"\nmust come next (Tab inserts it): {quoted(told.forced)}"))
        lines.append(("", "\n\nmay come next:\n" if self.refusal is None else "\n\nexpected instead:\n"))
        for one in told.expected[:MOST_LINES]:
            within = f"   {one.rules[0]}" if one.rules and told.pointer is None else ""
            lines += [("class:dim", f"  {one.kind:<11}"), ("class:key", shown(one.brief, 100))]
            lines.append(("class:dim", within + "\n"))
        n_more = told.n_more + max(0, len(told.expected) - MOST_LINES)
        if n_more:
            lines.append(("class:dim", f"  and {n_more:,} more\n"))
        if told.may_end:
            lines.append(("class:good", "  end         of the text\n"))
        lines += [("class:dim", f"\nnote: {one}") for one in told.omitted]
        return lines


def try_grammar(console: Console, named: Named, vocabulary: str) -> None:
    """Compile a grammar, and open the screen.

    Args:
        console: where to print progress.
        named: the grammar.
        vocabulary: SPEC of the vocabulary.

    Raises:
        HybridError: the grammar or the vocabulary cannot be used, or prompt_toolkit is not installed.
    """
    try:
        import prompt_toolkit  # noqa: F401 - an optional dependency
    except ModuleNotFoundError as error:
        raise NotInstalled("python -m hybrid try", "prompt_toolkit", "try") from error
    with console.status("compiling"):
        compiled = compiled_from(GrammarCompiler(load_vocabulary(vocabulary)), named.source)
    application(Board(compiled), f"{shown(named.title)} ({named.kind})").run()


def application(board: Board, title: str) -> Any:
    """Make the screen: the text, and the board below it. Ctrl-C or Ctrl-D ends it, Tab writes forced text.

    Args:
        board: the lines below the text.
        title: the title of the screen.

    Returns:
        A `prompt_toolkit.Application` whose result is the text.
    """
    from prompt_toolkit.application import Application
    from prompt_toolkit.buffer import Buffer
    from prompt_toolkit.key_binding import KeyBindings
    from prompt_toolkit.layout import HSplit, Layout, Window
    from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl
    from prompt_toolkit.layout.dimension import Dimension
    from prompt_toolkit.layout.processors import Processor, Transformation
    from prompt_toolkit.styles import Style

    class Marks(Processor):
        """Marks the refused part of the text."""

        def apply_transformation(self, given: Any) -> Any:
            before = "\n".join(given.document.lines[: given.lineno])
            start = len(before) + (given.lineno > 0)
            at = 0
            parts: Fragments = []
            for style, text, *_ in given.fragments:
                for character in text:
                    place = start + at - board.n_read
                    mark = "class:refused" if place == 0 else "class:beyond"
                    parts.append((mark if board.refusal is not None and place >= 0 else style, character))
                    at += 1
            return Transformation(parts)

    buffer = Buffer(multiline=True, on_text_changed=lambda changed: board.read(changed.text))
    keys = KeyBindings()

    @keys.add("c-c")
    @keys.add("c-d")
    def leave(event: Any) -> None:
        event.app.exit(result=buffer.text)

    @keys.add("tab")
    def write_forced(event: Any) -> None:
        if board.refusal is None and buffer.document.is_cursor_at_the_end:
            buffer.insert_text(board.told.forced)

    @keys.add("enter")
    def new_line(event: Any) -> None:
        buffer.insert_text("\n")

    heading: Any = [("class:title", title), ("class:dim", "   type; Tab: insert forced text; Ctrl-C: end")]
    text = Window(BufferControl(buffer, input_processors=[Marks()]), height=Dimension(min=3), wrap_lines=True)
    told = Window(FormattedTextControl(board.fragments), height=Dimension(min=8), wrap_lines=True)
    line = Window(height=1, char="\u2500")
    body = HSplit([Window(FormattedTextControl(heading), height=1), line, text, line, told])
    return Application(Layout(body, focused_element=text), key_bindings=keys, style=Style.from_dict(STYLES),
                       full_screen=True)  # fmt: skip
