"""Random JSON schemas and structural tags, for `tests.robustness.fuzz`.

What: `draw_json_schema` draws a schema with texts of about its form, `draw_structural_tag` a tag.
When: by `inputs`.
Limits: two levels deep; an instance need not be valid: tokens are cut from it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from tests.robustness.fuzz.grammars import Drawn, draw_ebnf, draw_regex

Schema = dict[str, Any] | bool

NAMES = ("a", "b", "ab", "é", "a b", "x1", "", "中")
WORDS = ("", "a", "ab", "b\n", 'q"', "é", "中", "😀", "\\", "red", "0")
PATTERNS = (
    "^[a-z]{2,4}$", "[0-9]+", "^(a|bc)*$", "^\\d{1,3}-x?$", "^[^a-c]*$", "a.b", "^[à-ö]{1,2}$", "^\\w+$",
    "^$", "^[\\u0400-\\u044f]+z$", "(?:ab)?c{0,3}",
)  # fmt: skip
FORMATS = (
    "date", "time", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri",
    "uri-reference", "uri-template", "json-pointer", "relative-json-pointer", "made-up",
)  # fmt: skip
SAMPLES = {
    "date": "2026-01-31", "time": "12:30:00Z", "date-time": "2026-01-31T12:30:00+01:00", "duration": "P1DT2H",
    "email": "a@b.de", "hostname": "a.b", "ipv4": "127.0.0.1", "ipv6": "fe80::1", "uri": "http://a.b/c?d#e",
    "uuid": "123e4567-e89b-12d3-a456-426614174000", "json-pointer": "/a/0",
}  # fmt: skip


def some(rng: random.Random, *members: tuple[float, str, Callable[[], Any]]) -> dict[str, Any]:
    """Some members of an object; each is given as its chance, its name, and what draws its value."""
    return {name: draw() for chance, name, draw in members if rng.random() < chance}


class _Schemas:
    """Schemas with references into ``$defs``."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.definitions = ["d0", "d1"][: rng.choice([0, 0, 1, 2])]
        schema = self.schema(0)
        self.known = dict(schema) if isinstance(schema, dict) else {"anyOf": [schema, {"type": "null"}]}
        if self.definitions:
            self.known["$defs"] = {name: self.schema(1) for name in self.definitions}

    def text(self) -> str:
        """An instance, written in one of several ways."""
        rng, value = self.rng, self.instance(self.known, 0)
        separators = rng.choice([(",", ":"), (", ", ": ")])
        indent = rng.choice([None, None, None, 1])
        return json.dumps(value, ensure_ascii=rng.random() < 0.3, separators=separators, indent=indent)

    def schema(self, depth: int) -> Schema:
        rng = self.rng
        draws = [self.string, self.number, self.constant, self.simple]
        if depth < 2:
            draws += [self.object, self.object, self.object, self.array, self.array, self.union]
        if self.definitions and rng.random() < 0.2:
            return {"$ref": f"#/$defs/{rng.choice(self.definitions)}"}
        if rng.random() < 0.04:
            return True if rng.random() < 0.5 else {}
        if depth and rng.random() < 0.03:
            return {"$ref": "#"}
        found: Schema = rng.choice(draws)(depth)
        if isinstance(found, dict) and rng.random() < 0.1:
            found[rng.choice(["title", "description", "default"])] = "a"
        return found

    def simple(self, depth: int) -> Schema:
        kinds = ["boolean", "null", "string", "integer", "number"]
        return {"type": self.rng.choice(kinds) if self.rng.random() < 0.7 else self.rng.sample(kinds, 2)}

    def constant(self, depth: int) -> Schema:
        values: list[Any] = [*WORDS, 0, -1, 12, 1.5, True, None, [1, "a"], {"a": 1}, 1e10]
        if self.rng.random() < 0.3:
            return {"const": self.rng.choice(values)}
        return {"enum": self.rng.sample(values, self.rng.randint(1, 4))}

    def string(self, depth: int) -> Schema:
        rng, kind = self.rng, self.rng.random()
        if kind < 0.3:
            pattern = draw_regex(rng).source if rng.random() < 0.2 else rng.choice(PATTERNS)
            return {"type": "string", "pattern": pattern}
        if kind < 0.55:
            return {"type": "string", "format": rng.choice(FORMATS)}
        bounds = some(
            rng,
            (0.5, "minLength", lambda: rng.randint(0, 4)),
            (0.6, "maxLength", lambda: rng.randint(2, 200 if rng.random() < 0.1 else 6)),
        )
        return {"type": "string", **bounds}

    def number(self, depth: int) -> Schema:
        rng = self.rng
        integer = rng.random() < 0.6
        found: dict[str, Any] = {"type": "integer" if integer else "number"}
        low = rng.choice([-1000, -10, -1, 0, 3, 99])
        if rng.random() < 0.5:
            found[rng.choice(["minimum", "exclusiveMinimum"])] = low if integer else low + 0.5
        if rng.random() < 0.5:
            found[rng.choice(["maximum", "exclusiveMaximum"])] = low + rng.choice([0, 2, 13, 1000])
        if integer and rng.random() < 0.2:
            found["multipleOf"] = rng.choice([1, 2, 5, 7])
        return found

    def object(self, depth: int) -> Schema:
        rng, deeper = self.rng, depth + 1
        names = rng.sample(NAMES, rng.randint(0, 3))
        properties = {name: self.schema(deeper) for name in names}
        limits = some(
            rng,
            (0.6, "required", lambda: [name for name in names if rng.random() < 0.6]),
            (0.5, "additionalProperties", lambda: rng.choice([True, False, self.schema(deeper)])),
            (0.1, "patternProperties", lambda: {rng.choice(PATTERNS): self.schema(deeper)}),
            (0.08, "propertyNames", lambda: {"pattern": rng.choice(PATTERNS)}),
            (0.1, "minProperties", lambda: rng.randint(0, 2)),
            (0.1, "maxProperties", lambda: rng.randint(1, 4)),
        )
        if not names and rng.random() < 0.5:
            return {"type": "object", **limits}
        return {"type": "object", "properties": properties, **limits}

    def array(self, depth: int) -> Schema:
        rng, deeper = self.rng, depth + 1
        limits = some(
            rng,
            (0.7, "items", lambda: self.schema(deeper) if rng.random() < 0.9 else False),
            (0.25, "prefixItems", lambda: [self.schema(deeper) for _ in range(rng.randint(1, 2))]),
            (0.3, "minItems", lambda: rng.randint(0, 3)),
            (0.4, "maxItems", lambda: rng.randint(1, 6)),
        )
        return {"type": "array", **limits}

    def union(self, depth: int) -> Schema:
        rng = self.rng
        word = rng.choice(["anyOf", "anyOf", "oneOf", "allOf"])
        return {word: [self.schema(depth + 1) for _ in range(1 if word == "allOf" else rng.randint(1, 3))]}

    def instance(self, schema: Any, depth: int) -> Any:
        """A value of about the schema's form."""
        rng = self.rng
        if not isinstance(schema, dict) or depth > 4:
            return rng.choice([0, "a", None, [], {}])
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            return self.instance(self.known.get("$defs", {}).get(name, self.known), depth + 1)
        for word in ("anyOf", "oneOf", "allOf", "enum"):
            if word in schema:
                chosen = rng.choice(schema[word])
                return chosen if word == "enum" else self.instance(chosen, depth)
        if "const" in schema:
            return schema["const"]
        kind = schema.get("type")
        kind = rng.choice(kind) if isinstance(kind, list) else kind
        if kind == "object":
            properties = schema.get("properties", {}).items()
            found = {name: self.instance(of, depth + 1) for name, of in properties if rng.random() < 0.8}
            return found | ({rng.choice(NAMES): 1} if rng.random() < 0.2 else {})
        if kind == "array":
            first = [self.instance(item, depth + 1) for item in schema.get("prefixItems", ())]
            return first + [self.instance(schema.get("items"), depth + 1) for _ in range(rng.randint(0, 3))]
        if kind in ("integer", "number"):
            low: Any = schema.get("minimum", schema.get("exclusiveMinimum", 0))
            return low + rng.choice([0, 1, 2, 13] if kind == "integer" else [0, 0.25, 1e-7])
        if kind == "string":
            words = "".join(rng.choice(WORDS) for _ in range(rng.randint(0, 4)))
            return SAMPLES.get(schema.get("format", ""), words)
        return rng.choice([True, False]) if kind == "boolean" else None


def draw_json_schema(rng: random.Random) -> Drawn:
    """A schema, and options of XGrammar's converter."""
    schemas = _Schemas(rng)
    texts = tuple(schemas.text() for _ in range(4))
    separators = [(",", ":"), (", ", ": ")]
    options = some(rng, (0.5, "strict_mode", lambda: rng.random() < 0.5))
    if rng.random() < 0.4:
        options["any_whitespace"] = False
        options |= some(
            rng,
            (0.4, "indent", lambda: rng.choice([0, 1, 2])),
            (0.4, "separators", lambda: rng.choice(separators)),
        )
    else:
        options |= some(rng, (0.2, "max_whitespace_cnt", lambda: rng.randint(1, 3)))
    options |= some(rng, (0.1, "any_order", lambda: True))
    return Drawn("json_schema", "json_schema", json.dumps(schemas.known), texts, options)


BEGINS = ("<a>", "<fn=go>", "[[", "<", "é{", "<a", "ab")
ENDS = ("</a>", "</fn>", "]]", ">", "}", "ba", "</")


class _Tags:
    """Formats of structural tags; `texts` collects what they contain."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.texts: list[str] = ["a", "<", " ", "é"]
        self.counts = False

    def word(self, words: tuple[str, ...]) -> str:
        self.texts.append(self.rng.choice(words))
        return self.texts[-1]

    def format(self, depth: int) -> dict[str, Any]:
        rng = self.rng
        kinds = ["const_string", "json_schema", "regex", "grammar", "any_text"]
        if depth < 2:
            kinds += ["sequence", "sequence", "or", "tag", "tag", "triggered_tags", "tags_with_separator",
                      "optional", "plus", "star", "repeat", "dispatch"]  # fmt: skip
        kind = rng.choice(kinds)
        made: dict[str, Any] = getattr(self, f"_{kind}")(depth)
        return {"type": kind, **made}

    def source(self, drawn: Drawn) -> str:
        self.texts += drawn.texts[:2] if drawn.kind == "json_schema" else drawn.texts
        return drawn.source

    def _const_string(self, depth: int) -> dict[str, Any]:
        return {"value": self.word(("Answer: ", "a", "ab", "é", "<", "\n"))}

    def _json_schema(self, depth: int) -> dict[str, Any]:
        return {"json_schema": json.loads(self.source(draw_json_schema(self.rng)))}

    def _regex(self, depth: int) -> dict[str, Any]:
        return {"pattern": self.source(draw_regex(self.rng))}

    def _grammar(self, depth: int) -> dict[str, Any]:
        return {"grammar": self.source(draw_ebnf(self.rng))}

    def _any_text(self, depth: int) -> dict[str, Any]:
        found = some(self.rng, (0.3, "excludes", lambda: [self.word(("ab", "<", "é"))]))
        if self.rng.random() < 0.15:
            self.counts = True
            found[self.rng.choice(["max_tokens", "max_chars"])] = self.rng.randint(1, 5)
        return found

    def _sequence(self, depth: int) -> dict[str, Any]:
        return {"elements": [self.format(depth + 1) for _ in range(self.rng.randint(1, 3))]}

    _or = _sequence

    def _tag(self, depth: int, begin: str = "") -> dict[str, Any]:
        rng = self.rng
        ends = [self.word(ENDS) for _ in range(rng.choice([1, 1, 1, 2]))]
        begin = begin or self.word(BEGINS)
        return {"begin": begin, "content": self.format(depth + 1), "end": ends[0] if len(ends) == 1 else ends}

    def _triggered_tags(self, depth: int) -> dict[str, Any]:
        rng, trigger = self.rng, self.word(BEGINS)
        begins = [trigger + more for more in rng.sample(["", "x", "y>", "xy"], rng.randint(1, 2))]
        self.texts += begins
        tags = [{"type": "tag", **self._tag(depth, begin)} for begin in begins]
        return {"triggers": [trigger], "tags": tags, **self._how_many()}

    def _tags_with_separator(self, depth: int) -> dict[str, Any]:
        tags = [{"type": "tag", **self._tag(depth)} for _ in range(self.rng.randint(1, 2))]
        return {"tags": tags, "separator": self.word((",", ", ", "\n", "")), **self._how_many()}

    def _how_many(self) -> dict[str, bool]:
        return {name: self.rng.random() < 0.3 for name in ("at_least_one", "stop_after_first")}

    def _optional(self, depth: int) -> dict[str, Any]:
        return {"content": self.format(depth + 1)}

    _plus = _star = _optional

    def _repeat(self, depth: int) -> dict[str, Any]:
        low = self.rng.randint(0, 2)
        return {"min": low, "max": self.rng.choice([-1, low + 1, low + 3]), "content": self.format(depth + 1)}

    def _dispatch(self, depth: int) -> dict[str, Any]:
        rng = self.rng
        words = rng.sample(BEGINS, rng.randint(1, 2))
        self.texts += words
        rules = [[word, self.format(depth + 1)] for word in words]
        excludes = (0.3, "excludes", lambda: [self.word(("ba", "]", "ö"))])
        return {"rules": rules, **some(rng, (0.4, "loop", lambda: False), excludes)}


def draw_structural_tag(rng: random.Random) -> Drawn:
    """A structural tag of strings; tags that name ids are drawn as grammars (`draw_token_ids`)."""
    tags = _Tags(rng)
    source = json.dumps({"type": "structural_tag", "format": tags.format(0)})
    return Drawn("structural_tag", "structural_tag", source, tuple(tags.texts), counts=tags.counts)
