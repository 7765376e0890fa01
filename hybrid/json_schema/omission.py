"""Keywords that must not be left out, because the schema would then forbid valid instances.

What: `refuse_forbidding` refuses to leave out a keyword below a negation, or one that evaluates keys or items
for other keywords.
When: once for each schema from which keywords were left out on request.
Limits: it may refuse more than necessary, never less.
"""

from __future__ import annotations

from equivalence.arrays.closure import close_backwards
from hybrid.json_schema.locations import Location, Locations

_EVALUATING = {
    "unevaluatedProperties": frozenset(("patternProperties", "$ref", "$dynamicRef", "$recursiveRef")),
    "unevaluatedItems": frozenset(("contains", "$ref", "$dynamicRef", "$recursiveRef")),
}
"""Keywords, and those that decide to which keys or items they apply, wherever these stand."""

_DECLARING = frozenset(("properties", "patternProperties", "prefixItems", "items"))
_APART = frozenset(("properties", "patternProperties", "prefixItems"))
_VALUES = frozenset(("items", "additionalProperties", "additionalItems", "contains", "propertyNames"))
_VALUES |= frozenset(_EVALUATING)


def refuse_forbidding(locations: Locations, names: frozenset[tuple[str, str]], is_strict: bool) -> None:
    """Refuse to leave out a keyword if that would forbid valid instances.

    Args:
        locations: the subschemas.
        names: (pointer, keyword) of each keyword that was left out.
        is_strict: whether objects and arrays that declare keys or items are closed to others.

    Raises:
        SchemaRefused: a keyword must not be left out.
    """
    negated = _negated(locations)
    read = {keyword for location in locations.all for keyword in _EVALUATING if keyword in location.schema}
    for location in locations.all:
        for keyword in [keyword for pointer, keyword in names if pointer == location.pointer]:
            if negated[location.number]:
                raise location.refused(
                    keyword, "is inside a negation, so relax=True cannot ignore it", "needed"
                )
            others = [other for other in sorted(read) if keyword in _EVALUATING[other]]
            if (
                keyword == "patternProperties"
                and location.schema.get("additionalProperties", True) is not True
            ):
                others.append("additionalProperties")
            if is_strict and keyword in _EVALUATING["unevaluatedProperties"] and _may_declare(location):
                others.append("strict_mode")
            if others:
                why = f"determines what {others[0]} applies to, so relax=True cannot ignore it"
                raise location.refused(keyword, why, "needed")


def _negated(locations: Locations) -> list[bool]:
    """For each location, by number, whether some path with a negation leads to it."""
    below: list[list[int]] = [[] for _ in locations.all]
    for above, found in locations.leads or ():
        if isinstance(found, Location):
            below[above.number].append(found.number)
    negated = [location.is_negated for location in locations.all]
    close_backwards(negated, below)  # the other way round: it adds what follows
    return negated


def _may_declare(location: Location) -> bool:
    """Whether keys or items of the same value may be declared, here or in another subschema."""
    if not _DECLARING.isdisjoint(location.schema):
        return True
    steps = location.pointer.split("/")
    return len(steps) > 2 and steps[-2] not in _APART and steps[-1] not in _VALUES
