"""Outlines' generators, with equimask behind them.

What: `generator` takes a model of Outlines and an output type, compiles it here, and makes the generator that
`outlines.Generator` would make, with our logits processor in place of its backend's.
When: ``generator(model, Person)("a prompt", max_new_tokens=100)``; `grammar_of` gives the compiled grammar.
Limits: models that Outlines runs in this process with torch or MLX (`outlines.from_transformers`,
`outlines.from_mlxlm`); a `JsonSchema` without a pattern of white space; a `CFG` is refused, as Outlines does
not say in which notation it is.
"""

from __future__ import annotations

import importlib
from typing import Any

from adapters.grammars import compiler_of, white_space
from adapters.mlx_lm import is_wrapper
from equivalence.arguments import shown
from equivalence.errors import ArgumentError, UnsupportedGrammar
from hybrid import CompiledGrammar, GrammarCompiler

INSTALL = "pip install 'equimask[outlines]'"


def generator(model: Any, output_type: Any, **options: Any) -> Any:
    """A generator of Outlines whose texts are of an output type.

    Args:
        model: what `outlines.from_transformers` or `outlines.from_mlxlm` returned.
        output_type: whatever Outlines takes (a pydantic model, an enum, `Literal`, a regular expression as
            `outlines.regex`, a JSON schema as `outlines.json_schema`), or a `hybrid.CompiledGrammar` over the
            model's vocabulary.
        options: of `adapters.transformers.GrammarLogitsProcessor`; give ``max_new_tokens`` here and to the
            generator's call where texts are to end whole within it.

    Raises:
        ImportError: Outlines, or the library that the model needs, is not installed.
        ArgumentError: another model. UnsupportedGrammar: an output type that is not taken.
        GrammarError: a grammar that XGrammar refuses.
    """
    outlines = _imported("outlines")
    processor, tokenizer = _processor_and_tokenizer(model)
    return outlines.Generator(
        model, processor=processor(grammar_of(model, output_type), tokenizer, **options)
    )


def grammar_of(model: Any, output_type: Any) -> CompiledGrammar:
    """The compiled grammar of an output type for a model.

    Raises:
        ImportError, ArgumentError, UnsupportedGrammar, GrammarError: as `generator`.
    """
    if isinstance(output_type, CompiledGrammar):
        return output_type
    dsl = _imported("outlines.types.dsl")
    compiler = _compiler(model)
    term = dsl.python_types_to_terms(output_type)
    if isinstance(term, dsl.CFG):
        raise UnsupportedGrammar(
            "a CFG of Outlines does not say in which notation it is; compile it with compile_grammar (EBNF) "
            "or compile_lark of hybrid.GrammarCompiler, and pass what they return"
        )
    if isinstance(term, dsl.JsonSchema):
        if term.whitespace_pattern is not None:
            raise UnsupportedGrammar(
                f"whitespace_pattern is {term.whitespace_pattern!r}, allowed is None; compile the schema "
                "with hybrid.GrammarCompiler.compile_json_schema, which has options for white space"
            )
        return compiler.compile_json_schema(term.schema, max_whitespace_cnt=white_space(compiler))
    return compiler.compile_regex(dsl.to_regex(term))


def _compiler(model: Any) -> GrammarCompiler:
    tokenizer = _processor_and_tokenizer(model)[1]
    return compiler_of(tokenizer._tokenizer if is_wrapper(tokenizer) else tokenizer)


def _processor_and_tokenizer(model: Any) -> tuple[Any, Any]:
    """The class of processors for a model, and its tokenizer.

    Raises:
        ArgumentError: another model than `generator` takes.
    """
    models = _imported("outlines.models")
    if isinstance(model, models.Transformers):
        return _imported("adapters.transformers").GrammarLogitsProcessor, model.hf_tokenizer
    if isinstance(model, models.MLXLM):
        return _imported("adapters.mlx_lm").GrammarLogitsProcessor, model.mlx_tokenizer
    raise ArgumentError(
        f"model is {shown(model)}, allowed is what outlines.from_transformers or outlines.from_mlxlm "
        "returns; vLLM has a plugin of its own (docs/vllm.md)"
    )


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        if name.startswith("outlines"):
            raise ImportError(f"{name} cannot be imported ({error}); install it: {INSTALL}") from error
        raise
