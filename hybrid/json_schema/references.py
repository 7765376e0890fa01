"""Where `$ref` and similar keywords lead, in the schema and in the documents beside it.

What: `Documents` are other documents, from a `referencing.Registry`. `References` resolves the references
of a schema: they may lead into the documents, the schema itself and the metaschemas of the drafts.
When: while a schema is compiled. `referencing` resolves addresses; this module finds the schemas that a
dynamic reference may mean.
Limits: nothing is fetched, even if a registry could. A reference to a missing document is refused, and so
is a reference to a document of another draft.

A dynamic reference means the outermost schema that has the anchor, among those on the way to the reference.
So a location includes the anchors on the way to it (`References.scope`), and one place in the text may be
several locations.
"""

from __future__ import annotations

import hashlib
import json
import marshal
import re
from collections.abc import Mapping, Sequence
from functools import cache, cached_property, lru_cache
from itertools import zip_longest
from typing import Any
from urllib.parse import unquote, urljoin

from equivalence import forks
from equivalence.arguments import shown
from equivalence.errors import ArgumentError
from hybrid.json_schema.dialects import NAMED, Dialect, draft_named
from hybrid.json_schema.errors import SchemaRefused
from hybrid.json_schema.json_objects import objects_with
from hybrid.json_schema.languages.limits import check_deadline
from hybrid.values.identity_cache import IdentityCache

_DYNAMIC = "$dynamicRef", "$recursiveRef", "$dynamicAnchor", "$recursiveAnchor"
_REFERENCES = "$ref", "$dynamicRef", "$recursiveRef"

_INDEX = re.compile("0|[1-9][0-9]*")
_NO_ESCAPE = re.compile("~(?![01])")

_RECURSIVE = "$recursiveAnchor"

_UNNAMED = "urn:schema"
"""The address given to a schema without one, if dynamic references need an address."""


@forks.with_unlocked_properties
class Documents:
    """Documents that references may lead to.

    Args:
        registry: a registry of `referencing`. Only its present content counts; it fetches nothing.

    Attributes:
        digest: a digest of the addresses, contents and drafts. A draft decides which names a document has.
    """

    def __init__(self, registry: Any) -> None:
        self._given = [
            (uri, json.dumps(registry[uri].contents), registry[uri]._specification)
            for uri in sorted(registry)
        ]
        digest = hashlib.blake2b(digest_size=16)
        for uri, text, made_for in self._given:
            digest.update(json.dumps([uri, made_for.name, len(text)]).encode())
            digest.update(text.encode())
        self.digest = digest.hexdigest()

    @cached_property
    def _resources(self) -> dict[str, Any]:
        """The documents as JSON has them: the given ones may have tuples, keys that are no text, and objects
        of subclasses."""
        return {
            uri: _corrected(made_for).create_resource(json.loads(text)) for uri, text, made_for in self._given
        }

    @cached_property
    def registry(self) -> Any:
        """A registry of these documents and of the metaschemas of the drafts."""
        from jsonschema_specifications import REGISTRY

        return REGISTRY.with_resources(self._resources.items()).crawl()

    def contents(self, uri: str) -> Any:
        """Return the document at an address, or None."""
        uri = uri.rstrip("#")
        found = [one.contents for name, one in self._resources.items() if name.rstrip("#") == uri]
        return found[-1] if found else None


class _Known:
    """The documents of a registry, made again when their contents have changed. A registry cannot change, but
    its documents can: they are dictionaries."""

    def __init__(self, registry: Any) -> None:
        self._contents = [registry[uri].contents for uri in registry]
        self._made: tuple[bytes, Documents] | None = None

    def documents(self, registry: Any) -> Documents:
        """Return the documents of the registry from which this was made."""
        try:
            state = hashlib.blake2b(marshal.dumps(self._contents, 2)).digest()
        except ValueError:  # there are objects of other classes, or very deep ones
            return Documents(registry)
        known = self._made
        if known is None or known[0] != state:
            known = self._made = state, Documents(registry)
        return known[1]


_known = IdentityCache(_Known)


class References:
    """The references of one schema.

    Args:
        schema: the whole schema.
        dialect: the dialect by which it is read.
        documents: other documents; None: none.

    Attributes:
        root: the resolver of references in the schema; None: it has no references.
    """

    def __init__(self, schema: Any, dialect: Dialect, documents: Documents | None) -> None:
        self._schema, self._dialect, self._documents = schema, dialect, documents
        referring = objects_with(schema, _REFERENCES)
        self._is_dynamic = bool(referring) and (
            documents is not None
            or any(map(_leads_to_metaschema, referring))
            or objects_with(schema, _DYNAMIC) != []
        )
        self._has_names = self._is_dynamic or any(map(_leads_to_name, referring))
        self._drafts: dict[str, bool] = {}
        self._anchors: dict[str, list[str]] = {}
        self._scopes: dict[tuple[tuple[str, str], ...], int] = {}
        self._scope_after: dict[tuple[str, ...], int] = {}
        self._entered: dict[tuple[int, int], tuple[Any, Any]] = {}
        self._found: dict[tuple[int, str, str], tuple[Any, Any, Any]] = {}  # each with the resolver asked
        self.root = self._find_root() if referring else None

    def _find_root(self) -> Any:
        from jsonschema_specifications import REGISTRY

        resource = specification(self._dialect.uri).create_resource(self._schema)
        try:
            name = resource.id() or (_UNNAMED if self._is_dynamic else "")
            registry = REGISTRY if self._documents is None else self._documents.registry
            registry = registry.with_resource(name, resource)
            # otherwise each reference to a name would look through the whole schema
            return (registry.crawl() if self._has_names else registry).resolver(name)
        except (RecursionError, MemoryError):
            raise
        except Exception as error:  # `referencing` lets errors of several types through
            raise _unreadable(error) from error

    def is_at_root(self, resolver: Any) -> bool:
        """Whether a resolver's references are relative to the whole schema, not to a part with an address of
        its own or to another document."""
        return self.root is not None and bool(resolver._base_uri == self.root._base_uri)

    def inside(self, resolver: Any, schema: dict[str, Any]) -> Any:
        """Return the resolver of references in a subschema."""
        dialect = self._dialect
        name = schema.get(dialect.id_keyword)
        if resolver is None or not isinstance(name, str):
            return resolver
        if "://" not in name and (id(schema), id(resolver)) in self._entered:
            return resolver  # a reference led here, and the resolver has its address already
        if dialect.ignores_ref_siblings and "$ref" in schema:
            return resolver
        try:
            inner = resolver.in_subresource(specification(dialect.uri).create_resource(schema))
        except ValueError as error:
            raise _unreadable(error) from error
        if "://" in name and name.rstrip("#") == resolver._base_uri:
            return resolver  # a reference led here; joined to itself, an address may be written differently
        if not self._is_dynamic or inner._base_uri == resolver._base_uri:
            return inner
        return resolver._evolve(base_uri=inner._base_uri)  # it records that this resource was left

    def scope(self, resolver: Any) -> int:
        """Return a number for the dynamic anchors on the way to a place, each with the outermost resource
        that has it; 0 if dynamic references do not matter."""
        if not self._is_dynamic or resolver is None:
            return 0
        passed = _passed(resolver)
        number = self._scope_after.get(passed)
        if number is None:
            outermost: dict[str, str] = {}
            for uri in passed:
                for anchor in self._anchors_of(resolver, uri):
                    outermost.setdefault(anchor, uri)
            number = self._scopes.setdefault(tuple(sorted(outermost.items())), len(self._scopes))
            self._scope_after[passed] = number
        return number

    def _anchors_of(self, resolver: Any, uri: str) -> list[str]:
        """Return the dynamic anchors of a resource; `_RECURSIVE` stands for `$recursiveAnchor`."""
        found = self._anchors.get(uri)
        if found is None:
            contents = _contents_of(resolver, uri)
            names = [one["$dynamicAnchor"] for one in objects_with(contents, ("$dynamicAnchor",))]
            found = [name for name in names if isinstance(name, str) and _has(resolver, uri, name)]
            if _is_recursive(contents):
                found.append(_RECURSIVE)
            self._anchors[uri] = found = sorted(set(found))
        return found

    def lookup(self, resolver: Any, keyword: str, name: str) -> tuple[Any, Any]:
        """Return the subschema that a reference leads to, and its resolver.

        Raises:
            LookupError: there is nothing (or, as `OtherDraft`, a document of another draft).
        """
        key = id(resolver), keyword, name
        known = self._found.get(key)
        if known is not None:  # `referencing` takes 20 us
            return known[0], known[1]
        check_deadline()
        try:
            found = self._lookup(resolver, keyword, name)
            is_strict = _is_strict(found.resolver, _absolute(resolver, name))
        except (RecursionError, MemoryError):
            raise
        except Exception as error:  # `referencing` lets errors of several types through
            raise LookupError(name) from error
        if not is_strict:
            raise LookupError(name)
        if not self._is_of_this_draft(found.resolver):
            raise OtherDraft(name)
        self._entered[id(found.contents), id(found.resolver)] = found.contents, found.resolver
        self._found[key] = found.contents, found.resolver, resolver
        return found.contents, found.resolver

    def _lookup(self, resolver: Any, keyword: str, name: str) -> Any:
        if not self._is_dynamic:
            return resolver.lookup(name)
        if keyword == "$recursiveRef":
            return self._recursive(resolver)
        return self._dynamic(resolver, name) if keyword == "$dynamicRef" else _plain(resolver, name)

    def _recursive(self, resolver: Any) -> Any:
        """Return the outermost resource with `$recursiveAnchor`, if the reference's own resource has it."""
        own = _plain(resolver, "#")
        if _is_recursive(own.contents):
            for uri in _passed(resolver):
                if _RECURSIVE in self._anchors_of(resolver, uri):
                    return _plain(resolver, uri)
        return own

    def _dynamic(self, resolver: Any, name: str) -> Any:
        """Return the schema in the outermost resource that has the dynamic anchor, if the referenced schema
        has it."""
        own = _plain(resolver, name)
        uri, _, anchor = _absolute(resolver, name).partition("#")
        if not anchor or anchor.startswith("/") or not _has(own.resolver, uri, anchor):
            return own
        for outer in _passed(resolver):
            if anchor in self._anchors_of(own.resolver, outer):
                return _plain(resolver, f"{outer}#{anchor}")
        return own

    def _is_of_this_draft(self, resolver: Any) -> bool:
        """Whether the document of a place belongs to the schema's draft: it names this draft; or it names
        none, and its resource was made for this draft or for none."""
        uri = resolver._base_uri
        found = self._drafts.get(uri)
        if found is None:
            resource = _resource_at(resolver, uri)
            contents = None if resource is None else resource.contents
            draft = draft_named(contents.get("$schema") if isinstance(contents, Mapping) else None)
            if draft is not None:
                found = draft.uri == self._dialect.uri
            else:
                made_for = "opaque" if resource is None else resource._specification.name
                found = made_for in ("opaque", specification(self._dialect.uri).name)
            self._drafts[uri] = found
        return found


class OtherDraft(LookupError):
    """A reference leads to a document of another draft."""


@cache
def specification(uri: str) -> Any:
    """Return the specification of a draft in `referencing`, by the draft's URI."""
    import referencing.jsonschema

    return _corrected(referencing.jsonschema.specification_with(uri))


@lru_cache(maxsize=32)
def _corrected(given: Any) -> Any:
    """Return a specification that knows which values of `items` and `dependencies` are schemas.

    `referencing` takes all values of `dependencies` for schemas if the first one is a schema, and none
    otherwise. Of the objects that a pointer passes, it takes all behind one of the two keywords for schemas,
    so that a property named `id` was the address of the object `properties`.
    """
    import attrs

    names_dependencies = not given.name.startswith("draft20")

    def subschemas_of(contents: Any) -> list[Any]:
        dependencies = contents.get("dependencies") if isinstance(contents, Mapping) else None
        if isinstance(dependencies, Mapping):
            schemas = {key: value for key, value in dependencies.items() if isinstance(value, Mapping)}
            contents = {**contents, "dependencies": schemas}
        return [one for one in given.subresources_of(contents) if isinstance(one, Mapping)]

    def resolver_inside(segments: Sequence[int | str], resolver: Any, subresource: Any) -> Any:
        if not isinstance(subresource.contents, Mapping):
            return resolver  # only objects have addresses
        if "items" in segments or "dependencies" in segments:
            segments = _plain_path(segments, names_dependencies)
        return given.maybe_in_subresource(segments, resolver, subresource)

    return attrs.evolve(given, subresources_of=subschemas_of, maybe_in_subresource=resolver_inside)


def _plain_path(segments: Sequence[int | str], names_dependencies: bool) -> list[int | str]:
    """Return the path of a pointer with other keywords in place of `items` and `dependencies`: those whose
    values always have the form that the value has here.

    Args:
        names_dependencies: whether the draft has `dependencies`.
    """
    found: list[int | str] = []
    is_name = False  # whether a segment is a key or an index, not a keyword
    for segment, following in zip_longest(segments, segments[1:]):
        if is_name:
            is_name = False
        elif segment == "items":
            is_name = isinstance(following, int)
            segment = "allOf" if is_name else "not"
        elif segment == "dependencies" and names_dependencies:
            is_name = True
            segment = "properties"
        else:
            is_name = segment in NAMED or isinstance(following, int)
        found.append(segment)
    return found


def load_referencing() -> None:
    """Import the resolver of references in advance, so that the first schema with references need not wait 40
    ms for it."""
    import jsonschema_specifications
    import referencing.jsonschema  # noqa: F401

    assert jsonschema_specifications.REGISTRY


def documents_of(registry: Any) -> Documents | None:
    """Return the documents of a registry that a caller passed.

    Raises:
        ArgumentError: it is not a registry, or contains something that is not JSON.
    """
    if registry is None or isinstance(registry, Documents):
        return registry
    from referencing import Registry

    if not isinstance(registry, Registry):
        raise ArgumentError(f"registry must be a referencing.Registry or None, but is {shown(registry)}")
    try:
        return _known.get(registry).documents(registry)
    except (TypeError, ValueError, RecursionError) as error:
        raise ArgumentError(
            f"registry must contain only schemas, but contains something that is not JSON ({error})"
        ) from error


def _unreadable(error: Exception) -> SchemaRefused:
    return SchemaRefused("invalid", "", "", f"has an address or an anchor that cannot be read ({error})")


def _passed(resolver: Any) -> tuple[str, ...]:
    """Return the resources on the way to a place, outermost first."""
    return tuple(dict.fromkeys((*reversed([*resolver._previous]), resolver._base_uri)))


def _resource_at(resolver: Any, uri: str) -> Any:
    """Return the resource at an address; None: it is a part of another one, without an address."""
    try:
        return resolver._registry[uri]
    except (RecursionError, MemoryError):
        raise
    except Exception:  # noqa: BLE001 - errors of several types
        return None


def _contents_of(resolver: Any, uri: str) -> Any:
    """Return the contents of the resource at an address; None: there is none."""
    resource = _resource_at(resolver, uri)
    return None if resource is None else resource.contents


def _has(resolver: Any, uri: str, name: str) -> bool:
    """Whether a resource has a dynamic anchor."""
    from referencing.jsonschema import DynamicAnchor

    try:
        return isinstance(resolver._registry.anchor(uri, name).value, DynamicAnchor)
    except (RecursionError, MemoryError):
        raise
    except Exception:  # noqa: BLE001 - errors of several types: there is no such anchor
        return False


def _absolute(resolver: Any, name: str) -> str:
    """Return the absolute address of a reference."""
    return f"{resolver._base_uri}{name}" if name.startswith("#") else urljoin(resolver._base_uri, name)


def _is_strict(resolver: Any, uri: str) -> bool:
    """Whether each part of the JSON pointer in an address that leads somewhere is a key or an index as
    RFC 6901 writes it. `referencing` also takes `-1`, `01`, characters of texts, and `~` for `~0`."""
    address, _, pointer = uri.partition("#")
    if not pointer.startswith("/"):
        return True
    contents = _contents_of(resolver, address)
    for part in unquote(pointer[1:]).split("/"):
        if _NO_ESCAPE.search(part):
            return False
        if isinstance(contents, Mapping):
            contents = contents[part.replace("~1", "/").replace("~0", "~")]
        elif isinstance(contents, list) and _INDEX.fullmatch(part):
            contents = contents[int(part)]
        else:
            return False
    return True


def _plain(resolver: Any, name: str) -> Any:
    """Return the static meaning of a reference. The resolver records where the reference came from."""
    found = type(resolver)(base_uri="", registry=resolver._registry).lookup(_absolute(resolver, name))
    inner = found.resolver
    return type(found)(found.contents, resolver._evolve(base_uri=inner._base_uri, registry=inner._registry))


def _is_recursive(contents: Any) -> bool:
    return isinstance(contents, Mapping) and contents.get("$recursiveAnchor") is True


def _leads_to_name(one: dict[str, Any]) -> bool:
    """Whether a reference is an anchor or an address, not a JSON pointer."""
    name = one.get("$ref")
    return isinstance(name, str) and name != "#" and not name.startswith("#/")


def _leads_to_metaschema(one: dict[str, Any]) -> bool:
    name = one.get("$ref")
    return isinstance(name, str) and "json-schema.org/draft/20" in name
