"""What XGrammar leaves out of a JSON schema: the keywords that a finished text may violate.

What: `find_relaxations` lists them as `Relaxation`s: the keywords that XGrammar 0.2.8 ignores, with or
without a warning, and those that it weakens.
When: behind `CompiledGrammar.relaxed` and ``compile_json_schema(strict=True)``; only for schemas that
XGrammar has taken, as it refuses malformed ones.
Limits: whether a keyword matters cannot always be told, so that the list errs on the side of naming too
much. An empty one promises that finished texts are valid, up to the spelling of JSON:

- a key may be repeated, or spelled with escapes and then taken for an additional one where those are allowed;
  repeated keys count for ``minProperties``;
- strings of a bounded length or a pattern may hold control characters that JSON wants escaped;
- where parts of a schema have an ``$id``, references are still followed from the root of the document;
- in patterns ``.`` stands for any character, also U+2028 and U+2029;
- constants of numbers beyond 64 bits are written in the precision of floats.

What XGrammar makes *narrower* is not listed: the fixed order of properties, ``strict_mode`` (no properties
and items but those named), patterns that must match the whole text, numbers without exponents between bounds,
whitespace. Annotations (``title``, ``default``, ``examples``, ``readOnly`` ...) and unknown words constrain
nothing.

One branch is taken for each part of a schema, in the order ``$ref``, ``const``, ``enum``, ``anyOf``,
``oneOf``, ``allOf``, ``type``, or the type that keywords suggest; what stands beside it is left out, and
listed if it could exclude a value that the branch lets through.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hybrid.xgrammar.relaxed.walk import Relaxation, Walk

__all__ = ["Relaxation", "SchemaText", "describe", "find_relaxations", "schema_text"]

UNREADABLE = "what XGrammar makes of the schema cannot be followed: {}"
NAMED_IN_ERRORS = 3


class SchemaText(NamedTuple):
    """A schema as XGrammar got it, with the options that say what it leaves out.

    Attributes:
        text: the schema.
        strict_mode, any_order: XGrammar's options.
        left_out: what was left out on request, where the schema was compiled with its own meaning; None: it was
            compiled with XGrammar's.
    """

    text: str
    strict_mode: bool
    any_order: bool
    left_out: tuple[Relaxation, ...] | None = None


def schema_text(schema: str | type, options: Mapping[str, Any]) -> SchemaText:
    """The schema (text or a pydantic model class) and the options that `compile_json_schema` got."""
    if isinstance(schema, type):
        model: Any = schema
        made = model.model_json_schema() if hasattr(model, "model_json_schema") else model.schema()
        schema = json.dumps(made)
    return SchemaText(schema, bool(options.get("strict_mode", True)), bool(options.get("any_order", False)))


def find_relaxations(
    schema: str, *, strict_mode: bool = True, any_order: bool = False
) -> tuple[Relaxation, ...]:
    """The keywords of a schema that masks do not enforce, part by part, referenced parts last.

    Args:
        schema: its text, which XGrammar has taken.
        strict_mode, any_order: XGrammar's options; others do not matter.
    """
    try:
        root = json.loads(schema)
    except (ValueError, RecursionError) as error:
        return (Relaxation("", "", UNREADABLE.format(error)),)
    return Walk(root, strict_mode, any_order).run()


def describe(found: Sequence[Relaxation]) -> str:
    """The message of an error that refuses a schema for its relaxations."""
    named = "; ".join(f"{one.keyword} at {one.pointer!r} ({one.reason})" for one in found[:NAMED_IN_ERRORS])
    more = f"; and {len(found) - NAMED_IN_ERRORS} more" if len(found) > NAMED_IN_ERRORS else ""
    return (
        f"XGrammar does not enforce all of the schema: {named}{more}; remove these keywords, or compile with "
        "strict=False, and validate finished texts (CompiledGrammar.relaxed is the list)"
    )
