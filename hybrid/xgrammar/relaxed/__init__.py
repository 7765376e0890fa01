"""Where XGrammar's grammar of a JSON schema parts from the schema, in either direction.

What: `find_differences` lists `Relaxation`s, the keywords that a finished text may violate (XGrammar 0.2.8
ignores them, with or without a warning, or weakens them), and `Narrowing`s, the keywords under which valid
values cannot be written.
When: behind `CompiledGrammar.relaxed`, `CompiledGrammar.narrowed` and ``compile_json_schema(strict=True)``;
only for schemas that XGrammar has taken, as it refuses malformed ones.
Limits: whether a keyword matters cannot always be told, so that the list errs on the side of naming too
much. No relaxation promises that finished texts are valid, but for these:

- a key may be repeated, or spelled with escapes and then taken for an additional one where those are allowed;
  repeated keys count for ``minProperties``;
- where parts of a schema have an ``$id``, references are still followed from the root of the document;
- in patterns ``.`` stands for any character, also U+2028 and U+2029.

No narrowing promises that each valid value has a text that can be written, not that every spelling of it can:
1 for 1.0, constants without white space. What ``strict_mode`` forbids (properties and items that are not
declared) and the order of keys are listed once for all places. Annotations (``title``, ``default``,
``examples``, ``readOnly`` ...) and unknown words constrain nothing.

One branch is taken for each part of a schema, in the order ``$ref``, ``const``, ``enum``, ``anyOf``,
``oneOf``, ``allOf``, ``type``, or the type that keywords suggest; what stands beside it is left out, and
listed if it could exclude a value that the branch lets through.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hybrid.xgrammar.relaxed.walk import Differences, Narrowing, Relaxation, Walk

__all__ = [
    "Differences",
    "Narrowing",
    "Relaxation",
    "SchemaText",
    "describe",
    "differences_of",
    "find_differences",
    "schema_text",
]

UNREADABLE = "it is unknown what XGrammar makes of the schema: {}"
NAMED_IN_ERRORS = 3


class SchemaText(NamedTuple):
    """A schema as XGrammar got it, with the options that say what it leaves out.

    Attributes:
        text: the schema.
        strict_mode, any_order: XGrammar's options.
        left_out: what was left out on request, where the schema was compiled with its own meaning; None: it
            was compiled with XGrammar's.
    """

    text: str
    strict_mode: bool
    any_order: bool
    left_out: tuple[Relaxation, ...] | None = None


def schema_text(
    schema: str | type, options: Mapping[str, Any], left_out: tuple[Relaxation, ...] | None = None
) -> SchemaText:
    """The schema (text or a pydantic model class), the options of `compile_json_schema`, and what was left
    out of it."""
    if isinstance(schema, type):
        model: Any = schema
        made = model.model_json_schema() if hasattr(model, "model_json_schema") else model.schema()
        schema = json.dumps(made)
    strict_mode, any_order = bool(options.get("strict_mode", True)), bool(options.get("any_order", False))
    return SchemaText(schema, strict_mode, any_order, left_out)


def find_differences(schema: str, *, strict_mode: bool = True, any_order: bool = False) -> Differences:
    """The keywords of a schema that masks do not enforce, and those under which they forbid valid values.

    Both are listed part by part, referenced parts last, and behind them what holds at many places.

    Args:
        schema: its text, which XGrammar has taken.
        strict_mode, any_order: XGrammar's options; others do not matter.
    """
    try:
        root = json.loads(schema)
    except (ValueError, RecursionError) as error:
        why = UNREADABLE.format(error)
        return Differences((Relaxation("", "", why),), (Narrowing("", "", why),))
    return Walk(root, strict_mode, any_order).run()


def differences_of(schema: SchemaText | None) -> Differences:
    """The differences of what a grammar was compiled from; none where it was not a schema.

    A schema with its own meaning has no narrowings: what was left out of it on request is all.
    """
    if schema is None:
        return Differences((), ())
    if schema.left_out is not None:
        return Differences(schema.left_out, ())
    return find_differences(schema.text, strict_mode=schema.strict_mode, any_order=schema.any_order)


def describe(found: Sequence[Relaxation], *, is_own: bool = False) -> str:
    """The message of an error that refuses a schema for its relaxations.

    Args:
        found: the relaxations.
        is_own: the schema has its own meaning, not XGrammar's.
    """
    named = "; ".join(f"{one.keyword} at {one.pointer!r} ({one.reason})" for one in found[:NAMED_IN_ERRORS])
    more = f"; and {len(found) - NAMED_IN_ERRORS} more" if len(found) > NAMED_IN_ERRORS else ""
    who = "keywords are left out of the schema" if is_own else "XGrammar does not enforce all of the schema"
    other = "" if is_own else ", or compile with semantics='json-schema', which enforces them"
    return (
        f"{who}: {named}{more}; remove these keywords, or compile with strict=False, and validate finished "
        f"texts (CompiledGrammar.relaxed is the list){other}"
    )
