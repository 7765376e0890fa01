"""The walk over a schema that finds what XGrammar leaves out of it, and which valid values it cannot write.

What: `Walk` visits each part that XGrammar reads once, and takes the branch that XGrammar takes. It lists
what the branch leaves out, and which valid values it cannot write.
When: by `hybrid.xgrammar.relaxed`, whose docstring says what is listed and what is not.
Limits: the time is linear in the size of the schema, except for the bounds of kinds
(`hybrid.xgrammar.relaxed.kinds`), which are limited. Nothing is recursive, because schemas may be deep, and
cyclic by references.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from hybrid.json_schema.dialects import DIALECTS, draft_named
from hybrid.xgrammar.relaxed.confused_parts import find_confused, is_typed, skipped_names
from hybrid.xgrammar.relaxed.keywords import APPLIES, NEXT_TO, Finding, fits, gap, is_idle, limit, unknown_to
from hybrid.xgrammar.relaxed.kinds import (
    ALL,
    SIGNS,
    Kinds,
    covers,
    decoded_names,
    key_of,
    kind_of,
    local_targets,
    sign_of,
    types_of,
)
from hybrid.xgrammar.relaxed.objects import array_findings, is_closed, is_open, needs_order, object_findings
from hybrid.xgrammar.relaxed.scalars import (
    BEYOND,
    constant_limit,
    integer_findings,
    number_findings,
    several_keys,
    string_findings,
)

UNREAD = "XGrammar does not read it"
ANY = "without a type, XGrammar allows any value here"
OTHER_DRAFT = "this keyword does not exist in the draft that $schema names, but XGrammar enforces it"
CONFUSED = (
    "XGrammar confuses this part with another one that differs only in a title or description, "
    "or is equal and used by propertyNames"
)
AS_ANY_OF = "XGrammar reads it as anyOf, and not all options are known to exclude each other"
OTHER_PATH = (
    "before 0.2.9, XGrammar decodes no escapes (~1, %25) and skips empty names, and reads another path"
)

MORE = "there are more places, which are not listed because their pointers are too long"
MOST_CHARACTERS = 4_000_000
"""The most characters of all pointers together: their number may grow with the square of the schema's."""

TAKEN: dict[str, frozenset[str]] = {
    "integer": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}),
    "number": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}),
    "string": frozenset({"minLength", "maxLength", "pattern", "format"}),
    "array": frozenset({"prefixItems", "items", "unevaluatedItems", "minItems", "maxItems"}),
    "object": frozenset(
        {
            "properties", "patternProperties", "additionalProperties", "unevaluatedProperties",
            "propertyNames", "required", "minProperties", "maxProperties",
        }
    ),
}  # fmt: skip
"""The keywords that XGrammar reads for a type, or that are examined separately."""

Path = tuple[Any, ...] | None
"""The path from the root: None, or (path of the parent, key or index)."""


class Relaxation(NamedTuple):
    """A keyword that masks do not enforce, or not completely.

    Attributes:
        pointer: the JSON pointer (RFC 6901) to the keyword in the schema, or to a pattern below
            patternProperties; with ``semantics="json-schema"``, to the subschema that has the keyword.
        keyword: its name; empty, with an empty pointer, if the schema as a whole is meant.
        reason: why it is listed.
    """

    pointer: str
    keyword: str
    reason: str


class Narrowing(NamedTuple):
    """A keyword because of which XGrammar cannot write some valid values.

    Attributes:
        pointer: the JSON pointer (RFC 6901) to the keyword in the schema, or to a pattern below
            patternProperties; if many places are concerned, to the first one.
        keyword: its name.
        reason: what cannot be written.
        is_general: whether the reason is not specific to this schema: what `strict_mode` forbids, and the
            order of keys.
    """

    pointer: str
    keyword: str
    reason: str
    is_general: bool = False


class Differences(NamedTuple):
    """The differences between a schema and XGrammar's grammar of it.

    Attributes:
        relaxed: keywords that a finished text may violate.
        narrowed: keywords because of which valid values cannot be written.
    """

    relaxed: tuple[Relaxation, ...]
    narrowed: tuple[Narrowing, ...]


class Walk:
    """One walk over the parts of a schema that XGrammar reads.

    Args:
        root: the schema.
        strict_mode, any_order: XGrammar's options.
    """

    def __init__(self, root: Any, strict_mode: bool, any_order: bool) -> None:
        self._root = root
        self._strict_mode = strict_mode
        self._any_order = any_order
        named = root.get("$schema") if isinstance(root, dict) else None
        is_third = isinstance(named, str) and "json-schema.org/draft-03/" in named
        dialect = draft_named(named) or DIALECTS["4" if is_third else "2020-12"]  # draft 3 is most like 4
        self._alone, self._has_counts = dialect.ignores_ref_siblings, dialect.counts_contains
        self._unknown = unknown_to(dialect)
        self._kinds = Kinds(root, self._alone, "const" in dialect.keywords)
        self._found: dict[tuple[str, str], Relaxation] = {}
        self._waiting: list[tuple[Any, Path, str]] = [(root, None, "")]
        self._later: list[tuple[Any, Path, str]] = []
        self._seen: set[tuple[int, str]] = set()
        self._parts: list[tuple[dict[str, Any], Path]] = []
        self._ambiguous = False
        self._characters = MOST_CHARACTERS
        self._narrowed: dict[tuple[str, str], Narrowing] = {}
        self._closed: list[tuple[Path, str]] = []
        self._ordered: list[tuple[Path, str]] = []

    def run(self) -> Differences:
        """Find the differences of all parts."""
        while self._waiting or self._later:
            if not self._waiting:
                self._waiting, self._later = self._later[::-1], []
            node, path, default = self._waiting.pop()
            if isinstance(node, dict) and (id(node), default) not in self._seen:
                self._seen.add((id(node), default))
                self._parts.append((node, path))
                self._ambiguous |= bool(skipped_names(node)) or (default != "" and not is_typed(node))
                begun = len(self._waiting)
                for finding in self._part(node, path, default):
                    self._add(path, finding)
                self._waiting[begun:] = self._waiting[begun:][::-1]
        if self._ambiguous:
            confused = find_confused(self._root)
            for node, path in self._parts:
                if id(node) in confused:
                    self._add(path, gap(confused[id(node)], CONFUSED))
                    self._add(path, limit(confused[id(node)], CONFUSED))
        self._limit_all(self._closed, "strict_mode forbids properties and items that are not declared")
        self._limit_all(self._ordered, "keys can only be written in the order in which they are listed here")
        return Differences(tuple(self._found.values()), tuple(self._narrowed.values()))

    def _add(self, path: Path, finding: Finding) -> None:
        """List a finding about a part, unless the pointers have too many characters already."""
        is_gap, keyword, reason, inside = finding
        found: dict[tuple[str, str], Any] = self._found if is_gap else self._narrowed
        kind = Relaxation if is_gap else Narrowing
        pointer = ""
        if self._characters >= 0:
            pointer = _pointer(((path, keyword), inside) if inside else (path, keyword))
            self._characters -= len(pointer)
        one = kind(pointer, keyword, reason) if self._characters >= 0 else kind("", "", MORE)
        found.setdefault(one[:2], one)

    def _limit_all(self, places: list[tuple[Path, str]], reason: str) -> None:
        """List a narrowing that concerns many places once."""
        if places:
            _, keyword = places[0]
            more = f" (here, and at {len(places) - 1} more places)" if len(places) > 1 else ""
            pointer = _pointer(places[0])
            self._narrowed[pointer, reason] = Narrowing(pointer, keyword, reason + more, True)

    def _visit(self, schema: Any, path: Path, *more: Any, default: str = "") -> None:
        for key in more:
            path = (path, key)
        self._waiting.append((schema, path, default))

    def _part(self, node: dict[str, Any], path: Path, default: str) -> Iterator[Finding]:
        """Examine a part, take the branch that XGrammar takes, and visit the parts below it."""
        for keyword in sorted(self._unknown & node.keys()):
            yield limit(keyword, OTHER_DRAFT)
        if "$ref" in node:
            yield from self._reference(node)
        elif "const" in node:
            yield from self._constants(node, path, "const", [node["const"]])
        elif "enum" in node:
            yield from self._constants(node, path, "enum", node["enum"])
        elif "anyOf" in node or "oneOf" in node:
            keyword = "anyOf" if "anyOf" in node else "oneOf"
            for number, option in enumerate(node[keyword]):
                self._visit(option, path, keyword, number)
            if keyword == "oneOf" and not self._kinds.exclusive(node[keyword]):
                yield gap(keyword, AS_ANY_OF)
            yield from self._beside(node, keyword)
        elif "allOf" in node:
            if len(node["allOf"]) == 1:
                self._visit(node["allOf"][0], path, "allOf", 0)
            elif not is_idle("allOf", node):
                yield gap("allOf", "XGrammar allows any value here, because there are several members")
            yield from self._beside(node, "allOf")
        elif node.get("type") or default:
            for one in types_of(node) or [default]:
                yield from self._typed(node, path, one)
        elif (sign := sign_of(node)) is not None:
            yield limit(sign, f"without a type, only {SIGNS[sign]}s can be written here")
            yield from self._typed(node, path, SIGNS[sign])
        else:
            yield from self._rest(node, ALL, frozenset(), ANY)

    def _reference(self, node: dict[str, Any]) -> Iterator[Finding]:
        reference = node["$ref"]
        targets = local_targets(self._root, reference)
        if not targets:
            yield gap("$ref", "only '#' and '#/...' are followed; others allow any value")
        elif reference != "#" and targets[0][0] != decoded_names(reference):
            yield gap("$ref", OTHER_PATH)
        for names, target in targets:
            place: Path = None
            for name in names:
                place = (place, name)
            self._later.append((target, place, ""))
        if not self._alone:
            yield from self._beside(node, "$ref")

    def _beside(self, node: dict[str, Any], branch: str) -> Iterator[Finding]:
        if len(node) > 1:
            yield from self._rest(
                node, self._kinds.written(node), frozenset({branch}), NEXT_TO.format(branch)
            )

    def _rest(
        self, node: dict[str, Any], kinds: frozenset[str], taken: frozenset[str], reason: str
    ) -> Iterator[Finding]:
        """List the keywords that could exclude values of these kinds and that are not in `taken`."""
        for keyword in node:
            about = APPLIES.get(keyword)
            if about is None or keyword in taken or not about & kinds:
                continue
            if keyword == "type" and covers(types_of(node), kinds):
                continue
            if not is_idle(keyword, node, self._has_counts):
                yield gap(keyword, reason)

    def _constants(
        self, node: dict[str, Any], path: Path, branch: str, values: list[Any]
    ) -> Iterator[Finding]:
        unwritable = constant_limit(values)
        if unwritable:
            yield limit(branch, unwritable)
            if unwritable == BEYOND:
                yield gap(branch, unwritable)
        if several_keys(values):
            self._ordered.append((path, branch))
        if len(node) == 1:
            return
        kinds = frozenset(map(kind_of, values))
        for keyword, bound in node.items():
            about = APPLIES.get(keyword)
            if keyword == branch or about is None or not about & kinds:
                continue
            if is_idle(keyword, node, self._has_counts):
                continue
            if keyword == "type":
                kept = covers(types_of(node), kinds)
            elif keyword == "enum":
                key = key_of(node["const"])
                kept = isinstance(key, tuple) and isinstance(bound, list) and key in map(key_of, bound)
            else:
                kept = all(fits(keyword, value, bound) for value in values if kind_of(value) in about)
            if not kept:
                yield gap(keyword, NEXT_TO.format(branch))

    def _typed(self, node: dict[str, Any], path: Path, one: str) -> Iterator[Finding]:
        """Find what XGrammar makes of the keywords of a type, and visit the parts below them."""
        if one == "string":
            yield from string_findings(node)
        elif one == "integer":
            yield from integer_findings(node)
        elif one == "number":
            yield from number_findings(node)
        elif one == "array":
            self._array(node, path)
            yield from array_findings(node)
        elif one == "object":
            self._object(node, path)
            yield from object_findings(node, self._kinds, self._strict_mode, self._any_order)
        if self._strict_mode and one in ("array", "object") and is_closed(node, one):
            signs = ("properties", "patternProperties", "prefixItems", "type")
            self._closed.append((path, next((sign for sign in signs if sign in node), "")))
        yield from self._rest(node, frozenset({one}), TAKEN.get(one, frozenset()) | {"type"}, UNREAD)

    def _array(self, node: dict[str, Any], path: Path) -> None:
        for number, item in enumerate(node.get("prefixItems", ())):
            self._visit(item, path, "prefixItems", number)
        rest = "items" if "items" in node else "unevaluatedItems"
        self._visit(node.get(rest), path, rest)

    def _object(self, node: dict[str, Any], path: Path) -> None:
        for keyword in ("properties", "patternProperties"):
            for name, schema in node.get(keyword, {}).items():
                self._visit(schema, path, keyword, name)
        self._visit(node.get("propertyNames"), path, "propertyNames", default="string")
        rest = "additionalProperties" if "additionalProperties" in node else "unevaluatedProperties"
        self._visit(node.get(rest), path, rest)
        if not self._any_order and needs_order(node, is_open(node, self._strict_mode)):
            self._ordered.append((path, "properties"))


def _pointer(path: Path) -> str:
    tokens = []
    while path is not None:
        path, key = path
        tokens.append(str(key))
    return "".join("/" + token.replace("~", "~0").replace("/", "~1") for token in reversed(tokens))
