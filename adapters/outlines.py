"""Outlines' generators with equimask's masks.

What: `generator` compiles an output type for a model of Outlines. It returns the generator that
`outlines.Generator` would return, but with our logits processor instead of its backend's.
When: ``generator(model, Person)("a prompt", max_new_tokens=100)``. `grammar_of` returns the compiled grammar.
Limits: models that Outlines runs in this process with torch or MLX (`outlines.from_transformers`,
`outlines.from_mlxlm`). A `JsonSchema` must not have a pattern for white space. A `CFG` is refused, because
Outlines does not say in which notation it is.
"""

from __future__ import annotations

import importlib
from typing import Any

from adapters.grammars import compiler_of, white_space
from adapters.mlx_lm import is_wrapper
from equivalence.arguments import shown
from equivalence.errors import ArgumentError, UnsupportedGrammar
from hybrid import CompiledGrammar

INSTALL = "pip install 'equimask[outlines]'"


def generator(model: Any, output_type: Any, **options: Any) -> Any:
    """Make a generator of Outlines that writes texts of an output type.

    Args:
        model: a model from `outlines.from_transformers` or `outlines.from_mlxlm`.
        output_type: any output type of Outlines (a pydantic model, an enum, `Literal`, a regular expression
            as `outlines.regex`, a JSON schema as `outlines.json_schema`), or a `hybrid.CompiledGrammar` for
            the model's vocabulary.
        options: options of `adapters.transformers.GrammarLogitsProcessor`. To have complete texts within a
            limit, pass ``max_new_tokens`` both here and to the generator's call.

    Raises:
        ImportError: Outlines, or the library that the model needs, is not installed.
        ArgumentError: the model is of another kind.
        UnsupportedGrammar: the output type is not supported.
        GrammarError: XGrammar refuses the grammar.
    """
    outlines = _imported("outlines")
    processor, tokenizer = _processor_and_tokenizer(model)
    return outlines.Generator(
        model, processor=processor(grammar_of(model, output_type), tokenizer, **options)
    )


def grammar_of(model: Any, output_type: Any) -> CompiledGrammar:
    """Compile an output type for a model.

    Raises:
        ImportError, ArgumentError, UnsupportedGrammar, GrammarError: as `generator`.
    """
    if isinstance(output_type, CompiledGrammar):
        return output_type
    dsl = _imported("outlines.types.dsl")
    tokenizer = _processor_and_tokenizer(model)[1]
    compiler = compiler_of(tokenizer._tokenizer if is_wrapper(tokenizer) else tokenizer)
    term = dsl.python_types_to_terms(output_type)
    if isinstance(term, dsl.CFG):
        raise UnsupportedGrammar(
            "a CFG of Outlines does not name its notation; compile it with compile_grammar (EBNF) or "
            "compile_lark of hybrid.GrammarCompiler, and pass the result"
        )
    if isinstance(term, dsl.JsonSchema):
        if term.whitespace_pattern is not None:
            raise UnsupportedGrammar(
                f"whitespace_pattern must be None, but is {term.whitespace_pattern!r}; compile the "
                "schema with hybrid.GrammarCompiler.compile_json_schema, which has options for white "
                "space"
            )
        return compiler.compile_json_schema(term.schema, max_whitespace_cnt=white_space(compiler))
    return compiler.compile_regex(dsl.to_regex(term))


def _processor_and_tokenizer(model: Any) -> tuple[Any, Any]:
    """Return the class of the logits processor for a model, and the model's tokenizer.

    Raises:
        ArgumentError: `generator` does not support the model.
    """
    models = _imported("outlines.models")
    if isinstance(model, models.Transformers):
        return _imported("adapters.transformers").GrammarLogitsProcessor, model.hf_tokenizer
    if isinstance(model, models.MLXLM):
        return _imported("adapters.mlx_lm").GrammarLogitsProcessor, model.mlx_tokenizer
    raise ArgumentError(
        "model must be what outlines.from_transformers or outlines.from_mlxlm returns, but is "
        f"{shown(model)}; vLLM has a plugin of its own (docs/vllm.md)"
    )


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        if name.startswith("outlines"):
            raise ImportError(f"{name} cannot be imported ({error}); install it: {INSTALL}") from error
        raise
