"""The content of a page about a grammar: strategy, token classes, and a document.

What: `facts_of` collects `Facts` from a compiled grammar.
When: for `hybrid.pages.page`, and for the summary that `python -m hybrid explain` prints.
Limits: those of `hybrid.pages.classes` and `hybrid.pages.document`.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from equivalence import BudgetExceeded, UnsupportedGrammar
from hybrid.api.matcher import GrammarMatcher
from hybrid.compiled import CompiledGrammar
from hybrid.pages.classes import ClassTable
from hybrid.pages.document import Document, read_document
from hybrid.testing.mask_comparison import flags_of
from hybrid.testing.random_walk import Walker

WALKED = 48
"""Most tokens of a random text, before it is completed."""

SHORTEST = 8
"""A shortest text is shown instead of a document only if it has at least this many bytes."""

STRATEGIES = {
    "classifier": "XGrammar does not run: an automaton reads the parser's stack and determines the classes "
    "of allowed tokens.",
    "representatives": "XGrammar runs over one token of each class, and its masks are expanded to the "
    "vocabulary.",
    "engine": "XGrammar runs over the whole vocabulary.",
}
"""Strategies in words."""


@dataclass(frozen=True)
class Facts:
    """The content of a page.

    Attributes:
        title: name of the grammar.
        kind: its notation.
        compiled: the grammar.
        compile_seconds: how long compiling took.
        classes: its token classes.
        document: a text that was read.
        document_is: which text this is, in words.
    """

    title: str
    kind: str
    compiled: CompiledGrammar
    compile_seconds: float
    classes: ClassTable
    document: Document
    document_is: str

    @property
    def strategy(self) -> str:
        """The strategy in words."""
        return STRATEGIES.get(self.compiled.strategy, self.compiled.strategy)

    @property
    def is_strict(self) -> bool:
        """Whether properties and items that a schema does not name are forbidden (XGrammar's strict_mode)."""
        schema = self.compiled.schema
        return schema is not None and schema.strict_mode


def facts_of(
    compiled: CompiledGrammar, title: str, kind: str, compile_seconds: float, text: bytes | None,
    text_is: str = "the document that was given",
) -> Facts:  # fmt: skip
    """Collect the content of a page.

    Args:
        compiled: the grammar, on any strategy.
        title, kind: its name and its notation.
        compile_seconds: how long it took to compile.
        text: a document; None: use a shortest text of the grammar, or a random one.
        text_is: which document this is, in words.

    Raises:
        ArgumentError: no tokens of the vocabulary spell the document.
    """
    table = ClassTable(compiled.vocabulary, compiled.classes)
    is_given = text is not None
    if text is None:
        text, text_is = _some_text(compiled)
    document = read_document(compiled, table, text, is_whole=is_given)
    return Facts(title, kind, compiled, compile_seconds, table, document, text_is)


def _some_text(compiled: CompiledGrammar) -> tuple[bytes, str]:
    """Return a text of the grammar, and its description."""
    tokens = compiled.vocabulary.tokens
    matcher = GrammarMatcher(compiled)
    shortest = _completion(matcher)
    if len(shortest) >= SHORTEST:
        return shortest, "a shortest text of the grammar, because no document was given"
    walker = Walker(random.Random(1), tokens, matcher.stop_token_ids, 0.7)
    text = []
    for _ in range(WALKED):
        allowed = flags_of(matcher)
        if not allowed.any() or not matcher.accept_token(token := walker.draw_from(allowed)):
            break
        if matcher.is_terminated():
            break
        text.append(tokens[token])
    text.append(_completion(matcher))
    return b"".join(text), "a random text, because no document was given"


def _completion(matcher: GrammarMatcher) -> bytes:
    """Return a shortest text that completes a matcher's text; empty if it takes too long or is not
    supported."""
    tokens = matcher.compiled_grammar.vocabulary.tokens
    try:
        return b"".join(tokens[one] for one in matcher.shortest_completion() or [])
    except (UnsupportedGrammar, BudgetExceeded):
        return b""
