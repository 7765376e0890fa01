"""Turning what a user passes to an adapter into compiled grammars.

What: `compiled_grammars` accepts compiled grammars, and with a tokenizer also JSON schemas and pydantic
models. `compiler_of` keeps one compiler for each tokenizer, because reading a vocabulary takes a second.
When: used by the adapters whose users write ``Processor(schema, tokenizer)``.
Limits: other notations (EBNF, regular expressions, structural tags, Lark) must be compiled with the methods
of `hybrid.GrammarCompiler`, because a text does not say in which notation it is written.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any

from equivalence import forks
from equivalence.arguments import shown
from equivalence.errors import ArgumentError, BatchError, VocabularyError
from hybrid import CompiledGrammar, GrammarCompiler, Vocabulary
from hybrid.json_schema import MOST_WHITE_SPACE
from hybrid.values.identity_cache import IdentityCache

_lock = forks.registered(threading.Lock(), forks.Order.SLOW)

ALLOWED = (
    "hybrid.CompiledGrammar, or (with a tokenizer) a JSON schema (dict or text) or a pydantic model class"
)


def compiled_grammars(
    given: Any, tokenizer: Any = None, semantics: str | None = None, max_whitespace_cnt: int | None = None,
    assert_formats: bool | None = None,
) -> list[CompiledGrammar]:  # fmt: skip
    """Compile the grammars that a user has passed.

    Args:
        given: a `hybrid.CompiledGrammar`; or, with a tokenizer, a JSON schema (a dict or text) or a pydantic
            model class; or a list of these.
        tokenizer: a tokenizer of `transformers`, a `hybrid.Vocabulary` or a `hybrid.GrammarCompiler`; None if
            all grammars are compiled.
        semantics: what schemas mean, "xgrammar" or "json-schema"; None is the compiler's setting.
        max_whitespace_cnt: how many characters of white space may stand together; -1 means any number. None
            is the compiler's setting, or 256.
        assert_formats: whether `format` is checked; None is the compiler's setting.

    The last three are for schemas; compiled grammars beside them stay as they are.

    Raises:
        ArgumentError: an argument has another type, or a setting is for schemas, but there are none.
        BatchError: there is no grammar.
        VocabularyError: the grammars have different vocabularies.
        GrammarError: XGrammar refuses a schema.
    """
    is_many = isinstance(given, Iterable) and not (
        isinstance(given, (str, Mapping)) or inspect.isclass(given)
    )
    items = list(given) if is_many else [given]
    if not items:
        raise BatchError("no grammar was given; pass one, or a list with one for each prompt")
    compiler = None if tokenizer is None else compiler_of(tokenizer)
    options = {
        "semantics": semantics, "max_whitespace_cnt": max_whitespace_cnt, "assert_formats": assert_formats
    }  # fmt: skip
    chosen = [option for option, value in options.items() if value is not None]
    if chosen and all(isinstance(item, CompiledGrammar) for item in items):
        raise ArgumentError(
            f"what was given is compiled already, so {' and '.join(chosen)} cannot be chosen here; pass them "
            "to the GrammarCompiler, or pass a schema"
        )
    grammars = []
    for place, item in enumerate(items):
        name = f"compiled[{place}]" if is_many else "compiled"
        if isinstance(item, CompiledGrammar):
            grammars.append(item)
        elif not (isinstance(item, (str, Mapping)) or hasattr(item, "model_json_schema")):
            raise ArgumentError(f"{name} must be a {ALLOWED}, but is {shown(item)}")
        elif compiler is None:
            raise ArgumentError(
                f"{name} is {shown(item)}, but there is no tokenizer to compile it for; pass "
                "tokenizer, or a grammar that hybrid.GrammarCompiler compiled"
            )
        else:
            most = white_space(compiler, max_whitespace_cnt)
            grammars.append(
                compiler.compile_json_schema(
                    item, semantics=semantics, max_whitespace_cnt=most, assert_formats=assert_formats
                )
            )
    vocabularies = {grammar.vocabulary.fingerprint: grammar.vocabulary for grammar in grammars}
    pairs = combinations(vocabularies.values(), 2)
    if not all(one.has_same_ids(other) for one, other in pairs):
        raise VocabularyError(
            f"all grammars must have the same vocabulary, but there are {len(vocabularies)} different "
            f"vocabularies, {list(vocabularies.values())}; compile all grammars with one "
            "GrammarCompiler"
        )
    return grammars


def white_space(compiler: GrammarCompiler, given: int | None = None) -> int:
    """Return the bound on white space for adapters that need not behave like XGrammar. Without a bound, small
    models may write white space until their tokens are used up.

    Args:
        compiler: its bound is used if `given` is None.
        given: the caller's bound.
    """
    most = compiler.max_whitespace_cnt if given is None else given
    return MOST_WHITE_SPACE if most is None else most


def compiler_of(tokenizer: Any) -> GrammarCompiler:
    """Return the compiler for a tokenizer: the same one for the same object, while its length, its stop token
    and its special tokens do not change.

    Args:
        tokenizer: a tokenizer of `transformers`, a `hybrid.Vocabulary`, or a compiler, which is returned.

    Raises:
        ArgumentError: the argument has another type.
        VocabularyError: XGrammar cannot tell what kind of tokenizer it is.
    """
    if isinstance(tokenizer, GrammarCompiler):
        return tokenizer
    if isinstance(tokenizer, Vocabulary):
        return GrammarCompiler(tokenizer)  # compilers of one vocabulary share their cache
    if inspect.isclass(tokenizer) or not hasattr(tokenizer, "get_vocab"):
        raise ArgumentError(
            "tokenizer must be a tokenizer of transformers, a hybrid.Vocabulary or a "
            f"hybrid.GrammarCompiler, but is {shown(tokenizer)}"
        )
    stop, special = getattr(tokenizer, "eos_token_id", None), getattr(tokenizer, "all_special_ids", ())
    with _lock:
        return _compilers.get(tokenizer, (len(tokenizer), stop, tuple(special)))


def _compiler_of(tokenizer: Any) -> GrammarCompiler:
    # some control tokens, such as those of Llama 3, are only in the table of added tokens
    added = getattr(tokenizer, "added_tokens_decoder", None)
    table = added if isinstance(added, Mapping) else {}  # that of mistral-common is a method that raises
    control = {number for number, token in table.items() if getattr(token, "special", False)}
    control.update(getattr(tokenizer, "all_special_ids", ()))
    control.discard(None)  # `tokenizer.pad_token = "<pad>"` adds no id
    return GrammarCompiler(Vocabulary.from_huggingface(tokenizer, special_token_ids=control))


_compilers = IdentityCache(_compiler_of)
