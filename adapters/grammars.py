"""What a user hands to an adapter, as compiled grammars over one vocabulary.

What: `compiled_grammars` takes grammars that are compiled already, or JSON schemas and pydantic models beside
a tokenizer; `compiler_of` keeps one compiler for a tokenizer, as its vocabulary takes a second to read.
When: by the adapters whose users write ``Processor(schema, tokenizer)``.
Limits: other notations (EBNF, regular expressions, structural tags, Lark) are compiled by
`hybrid.GrammarCompiler`, which has a method for each: a text does not say in which it is written.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterable, Mapping
from typing import Any

from adapters.by_identity import ByIdentity
from equivalence import forking
from equivalence.arguments import shown
from equivalence.errors import ArgumentError, BatchError, VocabularyError
from hybrid import CompiledGrammar, GrammarCompiler, Vocabulary
from hybrid.json_schema import MOST_WHITE_SPACE

_lock = forking.listed(threading.Lock(), forking.Order.SLOW)

ALLOWED = (
    "hybrid.CompiledGrammar, or, beside a tokenizer, a JSON schema (dict or text) or a pydantic model class"
)


def compiled_grammars(
    given: Any, tokenizer: Any = None, semantics: str | None = None, max_whitespace_cnt: int | None = None,
    assert_formats: bool | None = None,
) -> list[CompiledGrammar]:  # fmt: skip
    """The grammars that a user gave, compiled, all over one vocabulary.

    Args:
        given: a `hybrid.CompiledGrammar`; or, where there is a tokenizer, a JSON schema (a dict, or its
            text) or a pydantic model class; or several of these.
        tokenizer: of `transformers`, a `hybrid.Vocabulary` or a `hybrid.GrammarCompiler`; None if all is
            compiled.
        semantics: what schemas mean, "xgrammar" or "json-schema"; None: what the compiler says.
        max_whitespace_cnt: characters that a run of white space may have; -1 is no bound; None: what the
            compiler says, or 128.
        assert_formats: whether `format` is an assertion; None: what the compiler says.

    Raises:
        ArgumentError: something else.
        BatchError: no grammar at all.
        VocabularyError: the grammars are over different vocabularies.
        GrammarError: a schema that XGrammar refuses.
    """
    is_many = isinstance(given, Iterable) and not (
        isinstance(given, (str, Mapping)) or inspect.isclass(given)
    )
    items = list(given) if is_many else [given]
    if not items:
        raise BatchError("no grammar was given, allowed is one, or a list of one per prompt")
    compiler = None if tokenizer is None else compiler_of(tokenizer)
    grammars = []
    for place, item in enumerate(items):
        name = f"compiled[{place}]" if is_many else "compiled"
        if isinstance(item, CompiledGrammar):
            grammars.append(item)
        elif not (isinstance(item, (str, Mapping)) or hasattr(item, "model_json_schema")):
            raise ArgumentError(f"{name} is {shown(item)}, allowed are {ALLOWED}")
        elif compiler is None:
            raise ArgumentError(
                f"{name} is {shown(item)} and there is no tokenizer to compile it for; pass one, or "
                "what hybrid.GrammarCompiler compiled"
            )
        else:
            most = white_space(compiler, max_whitespace_cnt)
            grammars.append(
                compiler.compile_json_schema(
                    item, semantics=semantics, max_whitespace_cnt=most, assert_formats=assert_formats
                )
            )
    vocabularies = {grammar.vocabulary.fingerprint: grammar.vocabulary for grammar in grammars}
    if len(vocabularies) > 1:
        raise VocabularyError(
            f"the grammars are over {len(vocabularies)} different vocabularies, "
            f"{list(vocabularies.values())}; compile all of them with one GrammarCompiler"
        )
    return grammars


def white_space(compiler: GrammarCompiler, given: int | None = None) -> int:
    """The bound on runs of white space where nobody has to read what plain XGrammar writes: with none, small
    models go on with it to the end of their tokens.

    Args:
        compiler: its own bound comes second.
        given: comes first.
    """
    most = compiler.max_whitespace_cnt if given is None else given
    return MOST_WHITE_SPACE if most is None else most


def compiler_of(tokenizer: Any) -> GrammarCompiler:
    """The compiler for a tokenizer: the same one for the same object, as long as its length stays.

    Args:
        tokenizer: of `transformers`, a `hybrid.Vocabulary`, or a compiler, which is returned.

    Raises:
        ArgumentError: something else.
        VocabularyError: XGrammar cannot tell what kind of tokenizer it is.
    """
    if isinstance(tokenizer, GrammarCompiler):
        return tokenizer
    if isinstance(tokenizer, Vocabulary):
        return GrammarCompiler(tokenizer)  # compilers of one vocabulary share what they keep
    if inspect.isclass(tokenizer) or not hasattr(tokenizer, "get_vocab"):
        raise ArgumentError(
            f"tokenizer is {shown(tokenizer)}, allowed are a tokenizer of transformers, hybrid.Vocabulary "
            "and hybrid.GrammarCompiler"
        )
    with _lock:
        return _compilers.of(tokenizer, len(tokenizer))  # tokens may have been added since


def _compiler_of(tokenizer: Any) -> GrammarCompiler:
    return GrammarCompiler(Vocabulary.from_huggingface(tokenizer))


_compilers = ByIdentity(_compiler_of)
