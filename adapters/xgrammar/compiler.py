"""The compiler, with XGrammar's arguments and defaults, and our options as keywords.

What: `GrammarCompiler` checks XGrammar's arguments; `adapters.xgrammar.base_compiler` compiles.
When: one for each tokenizer; thread-safe.
Limits: the bounds are those of `hybrid.Budget`. A grammar that would crash XGrammar is an error.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import xgrammar

import hybrid
from adapters.xgrammar.base_compiler import BaseCompiler
from adapters.xgrammar.compiled import CompiledGrammar
from adapters.xgrammar.modules import of_another
from equivalence.arguments import integer
from hybrid.api.parallel import MOST_JOBS
from hybrid.compile.tag_request import tag_text

# XGrammar's module has more names
__getattr__ = partial(of_another, sys.modules["adapters.xgrammar"], __name__)

Compile = Callable[[hybrid.GrammarCompiler], hybrid.CompiledGrammar]


class GrammarCompiler(BaseCompiler):
    """Compiles grammars for one tokenizer. Its `hybrid` is our compiler, with `stats` and so on.

    Args:
        tokenizer_info: the tokenizer. For reading texts only, it need not have ids.
        max_threads, cache_enabled, cache_limit_bytes: as in XGrammar. Compilers of the same `tokenizer_info`
            object with the same bound share a cache; -1 is 512 MiB.
        enable_dynamic_compilation: accepted for XGrammar's sake, without effect: masks are computed when they
            are needed, and grammars that run in plain XGrammar are compiled for the whole vocabulary.
        **options: options of `hybrid.GrammarCompiler`: strategy, budget, on_budget, cache_dir and others.

    Raises:
        ValueError: the argument is not a `TokenizerInfo`.
        RuntimeError: a bound is below -1.
    """

    def __init__(
        self,
        tokenizer_info: xgrammar.TokenizerInfo,
        *,
        max_threads: int = 8,
        cache_enabled: bool = True,
        cache_limit_bytes: int = -1,
        enable_dynamic_compilation: bool = False,
        **options: Any,
    ) -> None:
        if not isinstance(tokenizer_info, xgrammar.TokenizerInfo):
            raise ValueError(
                "tokenizer_info must be a TokenizerInfo, but is of type "
                f"{type(tokenizer_info).__name__}; TokenizerInfo.from_huggingface makes one from a "
                "tokenizer"
            )
        self._tokenizer_info = tokenizer_info
        self._limit = integer(cache_limit_bytes, "cache_limit_bytes")
        threads = integer(max_threads, "max_threads")
        given = {
            "n_jobs": max(1, min(threads, MOST_JOBS)),  # in XGrammar 0 and less mean one thread
            "cache_enabled": cache_enabled,
            "cache_limit_bytes": self._limit,
        }
        super().__init__(tokenizer_info, {**given, **options})

    def _compiled(self, compile_it: Compile) -> CompiledGrammar:
        return CompiledGrammar(self._compile(compile_it), self._tokenizer_info)

    def compile_json_schema(
        self,
        schema: Any,
        *,
        any_whitespace: bool = True,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        strict_mode: bool = True,
        max_whitespace_cnt: int | None = None,
        any_order: bool = False,
    ) -> CompiledGrammar:
        """`xgrammar.GrammarCompiler.compile_json_schema`.

        Args:
            schema: JSON text, a dict, or a pydantic model class.
            any_whitespace, indent, separators, strict_mode, max_whitespace_cnt, any_order: as in XGrammar.

        Raises:
            ValueError: the schema has another type.
            RuntimeError: XGrammar refuses the schema, or it exceeds the budget.
        """
        text = _schema_text(schema)
        return self._compiled(
            lambda compiler: compiler.compile_json_schema(
                text, any_whitespace=any_whitespace, indent=indent, separators=separators,
                strict_mode=strict_mode, max_whitespace_cnt=max_whitespace_cnt, any_order=any_order,
            )
        )  # fmt: skip

    def compile_builtin_json_grammar(self) -> CompiledGrammar:
        """`xgrammar.GrammarCompiler.compile_builtin_json_grammar`."""
        return self._compiled(lambda compiler: compiler.compile_builtin_json_grammar())

    def compile_regex(self, regex: str) -> CompiledGrammar:
        """`xgrammar.GrammarCompiler.compile_regex`."""
        if not isinstance(regex, str):
            raise TypeError(f"regex must be a str, but is of type {type(regex).__name__}")
        return self._compiled(lambda compiler: compiler.compile_regex(regex))

    def compile_lark(
        self, lark_string: str, *, named_grammars: Mapping[str, xgrammar.Grammar | str] | None = None
    ) -> CompiledGrammar:
        """`xgrammar.GrammarCompiler.compile_lark`: XGrammar's own dialect of Lark, without a lexer.

        For real Lark grammars, use `hybrid.GrammarCompiler.compile_lark`.
        """
        if not isinstance(lark_string, str):
            raise TypeError(f"lark_string must be a str, but is of type {type(lark_string).__name__}")
        return self._compiled(
            lambda compiler: compiler.compile_lark_dialect(lark_string, self._tokenizer_info, named_grammars)
        )

    def compile_structural_tag(self, *args: Any, **kwargs: Any) -> CompiledGrammar:
        """`xgrammar.GrammarCompiler.compile_structural_tag`: ``structural_tag``, or ``tags, triggers``."""
        text = _tag_text(*args, **kwargs)
        return self._compiled(lambda compiler: compiler.compile_structural_tag(text))

    def compile_grammar(
        self, grammar: str | xgrammar.Grammar, *, root_rule_name: str = "root"
    ) -> CompiledGrammar:
        """`xgrammar.GrammarCompiler.compile_grammar`: an EBNF text, or a grammar.

        Raises:
            ValueError: the grammar has another type.
            TypeError: the name has another type.
            RuntimeError: XGrammar refuses the grammar, or it exceeds the budget.
        """
        if not isinstance(grammar, (str, xgrammar.Grammar)):
            raise ValueError(f"grammar must be a str or a Grammar, but is of type {type(grammar).__name__}")
        if not isinstance(root_rule_name, str):
            raise TypeError(f"root_rule_name must be a str, but is of type {type(root_rule_name).__name__}")
        return self._compiled(
            lambda compiler: compiler.compile_grammar(grammar, root_rule_name=root_rule_name)
        )

    def get_cache_size_bytes(self) -> int:
        """Return the size of the cached grammars in bytes."""
        return self.hybrid.get_cache_size_bytes()

    @property
    def cache_limit_bytes(self) -> int:
        """The bound of the cache as it was given; -1 for no bound."""
        return self._limit


def _schema_text(schema: Any) -> str:
    """Return a schema as JSON text."""
    if isinstance(schema, str):
        return schema
    if isinstance(schema, type) and hasattr(schema, "model_json_schema"):
        schema = schema.model_json_schema()
    if not isinstance(schema, dict):
        raise ValueError(
            f"schema must be JSON text, a dict or a model class, but is of type {type(schema).__name__}"
        )
    return json.dumps(schema)


def _tag_text(*args: Any, **kwargs: Any) -> str:
    """Return a structural tag as JSON text, from the arguments of either form.

    Raises:
        TypeError: the arguments have neither form. ValueError: `structural_tag` has another type.
    """
    text: Any = None
    if len(args) == 2 and isinstance(args[0], list) and isinstance(args[1], list):
        text = tag_text(*args)
    elif len(args) == 1 or "structural_tag" in kwargs:
        text = tag_text(args[0] if len(args) == 1 else kwargs["structural_tag"])
    elif "tags" in kwargs and "triggers" in kwargs:
        text = tag_text(kwargs["tags"], kwargs["triggers"])
    if isinstance(text, str):
        return text
    kind = TypeError if len(args) == 1 or "structural_tag" not in kwargs else ValueError
    raise kind(
        "the arguments must be a structural tag (StructuralTag, dict or JSON text), or lists of tags "
        "and triggers"
    )
