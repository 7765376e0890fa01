"""Find where XGrammar's grammar of a JSON schema differs from the schema, in both directions.

What: `find_differences` lists `Relaxation`s, the keywords that a finished text may violate (XGrammar 0.2.8
ignores them, with or without a warning, or weakens them), and `Narrowing`s, the keywords that keep valid
values from being written.
When: for `CompiledGrammar.relaxed`, `CompiledGrammar.narrowed` and ``compile_json_schema(strict=True)``; only
for schemas that XGrammar has accepted, because it refuses malformed ones.
Limits: it is not always possible to say whether a keyword matters, so the list may name too many. If there
are no relaxations, finished texts are valid, except that:
- a key may be repeated. It may also be spelled with escapes, and then counts as an additional one if those
  are allowed. Repeated keys count for ``minProperties``;
- if parts of a schema have an ``$id``, references are still followed from the root of the document;
- in patterns, ``.`` stands for any character, including U+2028 and U+2029.

If there are no narrowings, each valid value has a text that can be written, but not every spelling of it: for
example 1 and not 1.0, and constants without white space. What ``strict_mode`` forbids (undeclared properties
and items) and the order of keys are listed once for all places. Annotations (``title``, ``default``,
``examples``, ``readOnly`` ...) and unknown words constrain nothing.

XGrammar takes one branch for each part of a schema, the first of ``$ref``, ``const``, ``enum``, ``anyOf``,
``oneOf``, ``allOf``, ``type``, or the type that keywords suggest. It ignores the keywords beside the branch.
They are listed if they could exclude a value that the branch allows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from equivalence.errors import GrammarError
from hybrid.xgrammar.relaxed.confused_parts import has_forged_names
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

UNREADABLE = "it is unknown how XGrammar reads the schema: {}"
FORGED = "XGrammar may confuse any parts, because a name contains a quotation mark and a colon"
_MAY_BE_FORGED = re.compile(r'(?:\\"|\\u0022)(?::|\\u003[aA])')
NAMED_IN_ERRORS = 3


class SchemaText(NamedTuple):
    """A schema as XGrammar gets it, with the options that determine what XGrammar leaves out.

    Attributes:
        text: the schema.
        strict_mode, any_order: XGrammar's options.
        left_out: what was left out on request, if the schema was compiled with the meaning of JSON Schema;
            None if it was compiled with XGrammar's.
    """

    text: str
    strict_mode: bool
    any_order: bool
    left_out: tuple[Relaxation, ...] | None = None


def schema_text(
    schema: str | type, options: Mapping[str, Any], left_out: tuple[Relaxation, ...] | None = None
) -> SchemaText:
    """Make a `SchemaText` from a schema (text or a pydantic model class), the options of
    `compile_json_schema`, and what was left out of the schema.

    Raises:
        GrammarError: the class has no schema.
    """
    if isinstance(schema, type):
        model: Any = schema
        try:
            made = model.model_json_schema() if hasattr(model, "model_json_schema") else model.schema()
            schema = json.dumps(made)
        except Exception as error:
            raise GrammarError(
                f"the class {model.__name__!r} has no JSON schema ({error}); pass JSON text, a schema that "
                "json.dumps can write, or another pydantic model class"
            ) from error
    strict_mode, any_order = bool(options.get("strict_mode", True)), bool(options.get("any_order", False))
    return SchemaText(schema, strict_mode, any_order, left_out)


def find_differences(schema: str, *, strict_mode: bool = True, any_order: bool = False) -> Differences:
    """Find the keywords of a schema that masks do not enforce, and those for which masks forbid valid values.

    Both are listed part by part, referenced parts last; after them come those that concern many places.

    Args:
        schema: the text of a schema that XGrammar has accepted.
        strict_mode, any_order: XGrammar's options; others do not matter.
    """
    try:
        root = json.loads(schema)
        differences = Walk(root, strict_mode, any_order).run()
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        # not JSON for Python, or malformed: XGrammar refuses that, but a file may contain it
        why = UNREADABLE.format(error)
        return Differences((Relaxation("", "", why),), (Narrowing("", "", why),))
    if _MAY_BE_FORGED.search(schema) and has_forged_names(root):
        relaxed, narrowed = differences
        return Differences((Relaxation("", "", FORGED), *relaxed), (Narrowing("", "", FORGED), *narrowed))
    return differences


def differences_of(schema: SchemaText | None) -> Differences:
    """Find the differences of the schema that a grammar was compiled from; none if it was not a schema.

    A schema with the meaning of JSON Schema has no narrowings, and its only relaxations are what was left out
    on request.
    """
    if schema is None:
        return Differences((), ())
    if schema.left_out is not None:
        return Differences(schema.left_out, ())
    return find_differences(schema.text, strict_mode=schema.strict_mode, any_order=schema.any_order)


def describe(found: Sequence[Relaxation], *, is_own: bool = False) -> str:
    """Return the message of the error that refuses a schema because of its relaxations.

    Args:
        found: the relaxations.
        is_own: whether the schema has the meaning of JSON Schema, not XGrammar's.
    """
    named = "; ".join(
        f"{one.keyword or 'the schema'} at {one.pointer or 'the root'} ({one.reason})"
        for one in found[:NAMED_IN_ERRORS]
    )
    more = f"; and {len(found) - NAMED_IN_ERRORS} more" if len(found) > NAMED_IN_ERRORS else ""
    who = "the grammar" if is_own else "XGrammar"
    other = "" if is_own else "or use semantics='json-schema', which enforces them; "
    return (
        f"{who} does not enforce all of the schema: {named}{more}. Remove these keywords; {other}or use "
        "strict=False and validate finished texts against the schema (CompiledGrammar.relaxed lists the "
        "keywords)"
    )
