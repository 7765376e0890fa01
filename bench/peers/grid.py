"""GRID on JSON schemas: an LALR parser over a lexer, with masks from a walk over the vocabulary.

What: `Peer` compiles schemas with GRID, and opens sessions, which fill masks and read tokens.
When: in `bench.json_schema`, if ``grid-guardrail`` and ``grid_core`` are installed; without the latter it has
no kernels.
Limits: GRID says what it leaves out of a schema, and this is reported. If the tables of a schema have
conflicts, it is compiled once more with string values united, as its documentation recommends. Parts of its
package are experimental; only functions that its own server backend calls are called here.
"""

from __future__ import annotations

import importlib.util
import warnings
from functools import partial
from typing import Any

from bench.request import Calls


def is_installed() -> bool:
    """Whether GRID can be imported."""
    return importlib.util.find_spec("grid") is not None and importlib.util.find_spec("yaml") is not None


class _Tokenizer:
    """A vocabulary in the form that GRID needs."""

    def __init__(self, vocabulary: Any) -> None:
        self._tokens = vocabulary.tokens
        self.eos_token_id = self.pad_token_id = int(vocabulary.stop_token_ids[0])
        stops = set(vocabulary.stop_token_ids)
        without_text = {number for number, token in enumerate(vocabulary.tokens) if not token}
        self.special_token_ids = frozenset(stops | without_text)
        # Only the number of names matters: bytes are looked up by id.
        self.vocabulary = {f"<{number}>": number for number in range(vocabulary.size)}
        self.special_tokens = {f"<{number}>" for number in self.special_token_ids}

    def token_bytes(self, token_id: int) -> bytes:
        return b"" if token_id in self.special_token_ids else bytes(self._tokens[token_id])

    def convert_token_to_string(self, token: str) -> str:
        return token


class Peer:
    """GRID over one vocabulary.

    Raises:
        ValueError: it is not installed.
    """

    def __init__(self, vocabulary: Any, bitmask: Any) -> None:
        try:
            from grid.trie.build import build_trie
        except ImportError as error:
            raise ValueError(
                f"GRID cannot be imported ({error}); install it with: pip install 'grid-guardrail[kernel]'"
            ) from error
        self._tokenizer = _Tokenizer(vocabulary)
        self._bitmask = bitmask
        self._trie = build_trie(self._tokenizer)

    def compile(self, schema: Any) -> tuple[Any, list[str]]:
        """Compile a schema. Return the result, and what it leaves out."""
        from grid.errors import LALRConflictError

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns of right recursion in grammars that it has made itself
            try:
                return self._built(schema, unite=False)
            except LALRConflictError:
                return self._built(schema, unite=True)

    def _built(self, schema: Any, unite: bool) -> tuple[Any, list[str]]:
        from grid.grammar.projection import RoleProjection
        from grid.guide import GridGuide
        from grid.jsonschema import compile_json_schema_grammar
        from grid.lalr.compile import compile_tables
        from grid.lexer.dfa import build_scanner

        grammar, left_out = compile_json_schema_grammar(schema, unify_string_values=unite)
        tables = compile_tables(RoleProjection.full(grammar).build())
        scanner = build_scanner(grammar.terminals, grammar.terminal_order)
        guide = GridGuide(tables=tables, dfa=scanner, trie=self._trie, adapter=self._tokenizer)
        return guide, sorted(left_out)

    def begin(self, guide: Any) -> Calls:
        """Open a session at the beginning of a text."""
        from grid.models.vllm_structured import GridGrammarSession

        session = GridGrammarSession(guide)

        def accept(token: int) -> bool:
            return bool(session.accept_tokens("", [token]))

        def is_complete() -> bool:
            return bool(session.validate_tokens([self._tokenizer.eos_token_id]))

        return Calls(partial(session.fill_bitmask, self._bitmask, 0), accept, is_complete, self._bitmask)
