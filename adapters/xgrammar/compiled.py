"""The compiled grammar, with the attributes of XGrammar's.

What: `CompiledGrammar` contains the compiled grammar of `hybrid`, which our matchers use. It is also an
`xgrammar.CompiledGrammar`: if something needs what only XGrammar has (`serialize_json`, its testing helpers,
its own matchers), XGrammar compiles the grammar for the whole vocabulary, but not before.
When: made by `GrammarCompiler`, `wrap` and `deserialize_json`.
Limits: `serialize_json` has XGrammar's layout, and takes as long as in XGrammar.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import xgrammar

import hybrid
from adapters.xgrammar.base_compiler import BaseCompiler
from equivalence import GrammarError, forks
from equivalence.network.features import features_of
from equivalence.network.grammar_reader import read_grammar
from hybrid.json_schema import in_xgrammar
from hybrid.lark import LarkGrammar


@forks.with_unlocked_properties
class CompiledGrammar(xgrammar.CompiledGrammar):
    """A grammar ready for matchers. `GrammarCompiler` makes them.

    Args:
        compiled: the grammar for our matchers.
        tokenizer_info: the tokenizer that the grammar was compiled for.
        plain: XGrammar's compiled grammar, if there is one already.

    Attributes:
        hybrid: the `hybrid.CompiledGrammar`, with strategy, reason, token classes and timings.
    """

    def __init__(
        self, compiled: hybrid.CompiledGrammar, tokenizer_info: xgrammar.TokenizerInfo,
        plain: xgrammar.CompiledGrammar | None = None,
    ) -> None:  # fmt: skip
        self.hybrid = compiled
        self._tokenizer_info = tokenizer_info
        if plain is not None:
            self.__dict__["plain"] = plain

    @property
    def strategy(self) -> str:
        """The strategy that was chosen: "classifier", "representatives" or "engine"."""
        return self.hybrid.strategy

    @property
    def reason(self) -> str:
        """Why it was chosen."""
        return self.hybrid.reason

    @cached_property
    def plain(self) -> xgrammar.CompiledGrammar:
        """Plain XGrammar's compiled grammar, compiled at the first access."""
        compiler = xgrammar.GrammarCompiler(self._tokenizer_info, cache_enabled=False)
        return compiler.compile_grammar(self._parsed)

    @property
    def _handle(self) -> Any:
        return self.plain._handle

    @property
    def _parsed(self) -> xgrammar.Grammar:
        found = self.hybrid.grammar
        assert not isinstance(found, LarkGrammar)  # the compiler of this package makes no such grammars
        return in_xgrammar(found)

    @cached_property
    def grammar(self) -> xgrammar.Grammar:
        """The grammar as XGrammar optimises it, which takes a few milliseconds and does not need the
        vocabulary."""
        named = None if "plain" in self.__dict__ else self.named_ids
        if named is None:
            return self.plain.grammar
        info = xgrammar.TokenizerInfo([b""] * (max(named, default=-1) + 1))
        return xgrammar.GrammarCompiler(info, cache_enabled=False).compile_grammar(self._parsed).grammar

    @property
    def named_ids(self) -> tuple[int, ...] | None:
        """The ids that the grammar reads by number, as in formats with special tokens; None if this version
        of XGrammar does not tell."""
        features, grammar = self.hybrid.features, self.hybrid.grammar
        if features is not None:
            return features.named
        if not isinstance(grammar, xgrammar.Grammar):  # the grammar of a JSON schema names none
            return ()
        try:
            return features_of(read_grammar(grammar)).named
        except GrammarError:
            return None

    @property
    def tokenizer_info(self) -> xgrammar.TokenizerInfo:
        """The tokenizer that the grammar was compiled for."""
        return self._tokenizer_info

    @property
    def memory_size_bytes(self) -> int:
        """Bytes of our grammar, and of plain XGrammar's if it was compiled."""
        plain = self.__dict__.get("plain")
        return self.hybrid.memory_size_bytes + (0 if plain is None else int(plain.memory_size_bytes))

    @classmethod
    def _create_from_handle(cls, handle: Any) -> CompiledGrammar:
        """Our grammar for what XGrammar's compiled functions return. XGrammar's own method leaves out
        `__init__`."""
        plain: Any = xgrammar.CompiledGrammar._create_from_handle(handle)
        return taken_over(plain)

    def serialize_json(self) -> str:
        """`xgrammar.CompiledGrammar.serialize_json`. XGrammar compiles the grammar for it."""
        return self.plain.serialize_json()

    @staticmethod
    def deserialize_json(json_str: str, tokenizer_info: xgrammar.TokenizerInfo) -> CompiledGrammar:
        """Read a compiled grammar that `serialize_json` wrote, ours or XGrammar's.

        Raises:
            InvalidJSONError, DeserializeFormatError, DeserializeVersionError: as in XGrammar.
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


def taken_over(
    plain: xgrammar.CompiledGrammar, tokenizer_info: xgrammar.TokenizerInfo | None = None, **options: Any
) -> CompiledGrammar:
    """Return a compiled grammar for our matchers, from one of plain XGrammar.

    Args:
        plain: XGrammar's compiled grammar.
        tokenizer_info: the object that it was compiled with, if that is known.
        **options: options of `hybrid.GrammarCompiler`.
    """
    info = plain.tokenizer_info if tokenizer_info is None else tokenizer_info
    # a copy, which is not optimised: XGrammar writes all automata of an optimised grammar once for each rule
    grammar = xgrammar.Grammar.union(plain.grammar)
    compiled = BaseCompiler(info, options)._compile(lambda compiler: compiler.compile_grammar(grammar))
    return CompiledGrammar(compiled, info, plain)
