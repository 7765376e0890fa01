"""The compiled grammar, with the attributes of XGrammar's, and its whole meaning where somebody needs that.

What: `CompiledGrammar` holds what `hybrid` made of a grammar, which our matchers run on. It is an
`xgrammar.CompiledGrammar` too: XGrammar compiles the grammar over the whole vocabulary when something asks
for what only XGrammar has (`serialize_json`, its testing helpers, its own matchers), and not before.
When: made by `GrammarCompiler`, `wrap` and `deserialize_json`.
Limits: the layout of `serialize_json` is XGrammar's, and so is the time that it takes.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import xgrammar

import hybrid
from adapters.xgrammar.compiling import Compiling
from adapters.xgrammar.errors import with_its_errors
from equivalence import GrammarError, forking
from equivalence.classes.byte_strings import find_features
from equivalence.network.layouts import PREVIEW
from equivalence.network.reading import read_as_far
from hybrid.json_schema import in_xgrammar
from hybrid.lark import LarkGrammar

IS_PREVIEW = xgrammar.get_serialization_version() == PREVIEW
"""Whether XGrammar is one of the previews 0.2.6rc1 and 0.2.6rc2."""


@forking.with_listed_properties
class CompiledGrammar(xgrammar.CompiledGrammar):
    """A grammar ready for matchers. `GrammarCompiler` makes them.

    Args:
        compiled: what our matchers run on.
        tokenizer_info: what the grammar was compiled for.
        plain: XGrammar's own, where there is one already.

    Attributes:
        hybrid: the `hybrid.CompiledGrammar`, which tells strategy, reason, token classes and timings.
    """

    def __init__(
        self,
        compiled: hybrid.CompiledGrammar,
        tokenizer_info: xgrammar.TokenizerInfo,
        plain: xgrammar.CompiledGrammar | None = None,
    ) -> None:
        self.hybrid = compiled
        self._tokenizer_info = tokenizer_info
        if plain is not None:
            self.__dict__["plain"] = plain

    @property
    def strategy(self) -> str:
        """What was chosen: "classifier", "representatives" or "engine"."""
        return self.hybrid.strategy

    @property
    def reason(self) -> str:
        """One sentence: why."""
        return self.hybrid.reason

    @cached_property
    def on_engine(self) -> hybrid.CompiledGrammar:
        """The same grammar on plain XGrammar, for matchers that no other strategy serves."""
        if self.hybrid.strategy == "engine":
            return self.hybrid
        compiler = hybrid.GrammarCompiler(self.hybrid.vocabulary, strategy="engine", cache_enabled=False)
        return compiler.compile_grammar(self._parsed)

    @cached_property
    def plain(self) -> xgrammar.CompiledGrammar:
        """What plain XGrammar makes of the grammar; compiled when first asked for."""
        compiler = xgrammar.GrammarCompiler(self._tokenizer_info, cache_enabled=False)
        return compiler.compile_grammar(self._parsed)

    @property
    def _handle(self) -> Any:
        return self.plain._handle

    @property
    def _parsed(self) -> xgrammar.Grammar:
        found = self.hybrid.grammar
        assert not isinstance(found, LarkGrammar)  # the compiler of this package makes none
        return in_xgrammar(found)

    @cached_property
    def grammar(self) -> xgrammar.Grammar:
        """The grammar as XGrammar optimised it, in a few milliseconds: without looking at the vocabulary."""
        # the optimiser of previews looks at the vocabulary
        if "plain" in self.__dict__ or IS_PREVIEW:
            return self.plain.grammar
        try:
            named = find_features(read_as_far(self._parsed).whole()).named
        except GrammarError:  # of another version of XGrammar
            return self.plain.grammar
        info = xgrammar.TokenizerInfo([b""] * (max(named, default=-1) + 1))
        return xgrammar.GrammarCompiler(info, cache_enabled=False).compile_grammar(self._parsed).grammar

    @property
    def tokenizer_info(self) -> xgrammar.TokenizerInfo:
        """What the grammar was compiled for."""
        return self._tokenizer_info

    @property
    def memory_size_bytes(self) -> int:
        """Bytes held for our matchers, and for plain XGrammar's where somebody asked for them."""
        plain = self.__dict__.get("plain")
        return self.hybrid.memory_size_bytes + (0 if plain is None else int(plain.memory_size_bytes))

    def serialize_json(self) -> str:
        """What `xgrammar.CompiledGrammar.serialize_json` gives; XGrammar compiles the grammar for it."""
        return self.plain.serialize_json()

    @staticmethod
    def deserialize_json(json_str: str, tokenizer_info: xgrammar.TokenizerInfo) -> CompiledGrammar:
        """A compiled grammar that this or XGrammar's own `serialize_json` wrote.

        Raises:
            InvalidJSONError, DeserializeFormatError, DeserializeVersionError: as XGrammar's.
        """
        plain = xgrammar.CompiledGrammar.deserialize_json(json_str, tokenizer_info)
        return taken_over(plain, tokenizer_info)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, CompiledGrammar):
            return self.hybrid is other.hybrid
        return NotImplemented

    def __hash__(self) -> int:
        return hash(id(self.hybrid))

    def __repr__(self) -> str:
        return repr(self.hybrid)


@with_its_errors
def taken_over(
    plain: xgrammar.CompiledGrammar, tokenizer_info: xgrammar.TokenizerInfo | None = None, **options: Any
) -> CompiledGrammar:
    """A compiled grammar of XGrammar's, with matchers of ours.

    Args:
        plain: XGrammar's.
        tokenizer_info: the object that it was made with, if that is known.
        **options: of `hybrid.GrammarCompiler`.
    """
    info = plain.tokenizer_info if tokenizer_info is None else tokenizer_info
    grammar = plain.grammar
    compiled = Compiling(info, options).compiled(lambda compiler: compiler.compile_grammar(grammar))
    return CompiledGrammar(compiled, info, plain)
