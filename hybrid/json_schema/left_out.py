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


def refuse_forbidding(locations: Locations, names: frozenset[tuple[str, str]]) -> None:
    """Refuse to leave out a keyword if that would forbid valid instances.

    Args:
        locations: the subschemas.
        names: (pointer, keyword) of each keyword that was left out.

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
