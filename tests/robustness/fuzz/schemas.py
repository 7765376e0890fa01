"""Random JSON schemas and structural tags, for `tests.robustness.fuzz`.

What: `draw_json_schema` draws a schema with texts of about its form, `draw_structural_tag` a tag.
When: by `inputs`.
Limits: two levels deep; an instance need not be valid: tokens are cut from it.
"""

from __future__ import annotations

import json
import random
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


class _Schemas:
    """Schemas with references into ``$defs``."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.definitions = ["d0", "d1"][: rng.choice([0, 0, 1, 2])]

    def document(self) -> tuple[Schema, list[str]]:
        rng = self.rng
        schema = self.schema(0)
        found: dict[str, Any] = (
            dict(schema) if isinstance(schema, dict) else {"anyOf": [schema, {"type": "null"}]}
        )
        if self.definitions:
            definitions = {name: self.schema(1) for name in self.definitions}
            found["$defs"] = definitions
        self.known = found
        texts = []
        for _ in range(4):
            value = self.instance(found, 0)
            separators = rng.choice([(",", ":"), (", ", ": ")])
            indent = rng.choice([None, None, None, 1])
            texts.append(
                json.dumps(value, ensure_ascii=rng.random() < 0.3, separators=separators, indent=indent)
            )
        return found, texts

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
        rng, found = self.rng, {"type": "string"}
        kind = rng.random()
        if kind < 0.3:
            return {
                **found,
                "pattern": draw_regex(rng).source if rng.random() < 0.2 else rng.choice(PATTERNS),
            }
        if kind < 0.55:
            return {**found, "format": rng.choice(FORMATS)}
        bounds: dict[str, Any] = dict(found)
        if rng.random() < 0.5:
            bounds["minLength"] = rng.randint(0, 4)
        if rng.random() < 0.6:
            bounds["maxLength"] = rng.randint(2, 200 if rng.random() < 0.1 else 6)
        return bounds

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
        rng = self.rng
        names = rng.sample(NAMES, rng.randint(0, 3))
        found: dict[str, Any] = {
            "type": "object",
            "properties": {name: self.schema(depth + 1) for name in names},
        }
        if rng.random() < 0.6:
            found["required"] = [name for name in names if rng.random() < 0.6]
        if rng.random() < 0.5:
            found["additionalProperties"] = rng.choice([True, False, self.schema(depth + 1)])
        if rng.random() < 0.1:
            found["patternProperties"] = {rng.choice(PATTERNS): self.schema(depth + 1)}
        if rng.random() < 0.08:
            found["propertyNames"] = {"pattern": rng.choice(PATTERNS)}
        if rng.random() < 0.1:
            found["minProperties"] = rng.randint(0, 2)
        if rng.random() < 0.1:
            found["maxProperties"] = rng.randint(1, 4)
        if not names and rng.random() < 0.5:
            del found["properties"]
        return found

    def array(self, depth: int) -> Schema:
        rng = self.rng
        found: dict[str, Any] = {"type": "array"}
        if rng.random() < 0.7:
            found["items"] = self.schema(depth + 1) if rng.random() < 0.9 else False
        if rng.random() < 0.25:
            found["prefixItems"] = [self.schema(depth + 1) for _ in range(rng.randint(1, 2))]
        if rng.random() < 0.3:
            found["minItems"] = rng.randint(0, 3)
        if rng.random() < 0.4:
            found["maxItems"] = rng.randint(1, 6)
        return found

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
            found = {
                name: self.instance(value, depth + 1)
                for name, value in schema.get("properties", {}).items()
                if rng.random() < 0.8
            }
            if rng.random() < 0.2:
                found[rng.choice(NAMES)] = 1
            return found
        if kind == "array":
            first = [self.instance(item, depth + 1) for item in schema.get("prefixItems", ())]
            return first + [self.instance(schema.get("items"), depth + 1) for _ in range(rng.randint(0, 3))]
        if kind in ("integer", "number"):
            low: Any = schema.get("minimum", schema.get("exclusiveMinimum", 0))
            return low + rng.choice([0, 1, 2, 13]) if kind == "integer" else low + rng.choice([0, 0.25, 1e-7])
        if kind == "string":
            return SAMPLES.get(
                schema.get("format", ""), "".join(rng.choice(WORDS) for _ in range(rng.randint(0, 4)))
            )
        return rng.choice([True, False]) if kind == "boolean" else None


def draw_json_schema(rng: random.Random) -> Drawn:
    """A schema, and options of XGrammar's converter."""
    schema, texts = _Schemas(rng).document()
    options: dict[str, Any] = {}
    if rng.random() < 0.5:
        options["strict_mode"] = rng.random() < 0.5
    if rng.random() < 0.4:
        options["any_whitespace"] = False
        if rng.random() < 0.4:
            options["indent"] = rng.choice([0, 1, 2])
        if rng.random() < 0.4:
            options["separators"] = rng.choice([(",", ":"), (", ", ": ")])
    elif rng.random() < 0.2:
        options["max_whitespace_cnt"] = rng.randint(1, 3)
    if rng.random() < 0.1:
        options["any_order"] = True
    return Drawn("json_schema", "json_schema", json.dumps(schema), tuple(texts), options)


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

    def _const_string(self, depth: int) -> dict[str, Any]:
        return {"value": self.word(("Answer: ", "a", "ab", "é", "<", "\n"))}

    def _json_schema(self, depth: int) -> dict[str, Any]:
        drawn = draw_json_schema(self.rng)
        self.texts += drawn.texts[:2]
        return {"json_schema": json.loads(drawn.source)}

    def _regex(self, depth: int) -> dict[str, Any]:
        drawn = draw_regex(self.rng)
        self.texts += drawn.texts
        return {"pattern": drawn.source}

    def _grammar(self, depth: int) -> dict[str, Any]:
        drawn = draw_ebnf(self.rng)
        self.texts += drawn.texts
        return {"grammar": drawn.source}

    def _any_text(self, depth: int) -> dict[str, Any]:
        rng, found = self.rng, {}
        if rng.random() < 0.3:
            found["excludes"] = [self.word(("ab", "<", "é"))]
        if rng.random() < 0.15:
            found[rng.choice(["max_tokens", "max_chars"])] = rng.randint(1, 5)
            self.counts = True
        return found

    def _sequence(self, depth: int) -> dict[str, Any]:
        return {"elements": [self.format(depth + 1) for _ in range(self.rng.randint(1, 3))]}

    def _or(self, depth: int) -> dict[str, Any]:
        return self._sequence(depth)

    def _tag(self, depth: int, begin: str = "") -> dict[str, Any]:
        rng = self.rng
        ends = [self.word(ENDS) for _ in range(rng.choice([1, 1, 1, 2]))]
        begin = begin or self.word(BEGINS)
        return {"begin": begin, "content": self.format(depth + 1), "end": ends[0] if len(ends) == 1 else ends}

    def _triggered_tags(self, depth: int) -> dict[str, Any]:
        rng = self.rng
        trigger = self.word(BEGINS)
        begins = [trigger + more for more in rng.sample(["", "x", "y>", "xy"], rng.randint(1, 2))]
        self.texts += begins
        return {
            "triggers": [trigger],
            "tags": [{"type": "tag", **self._tag(depth, begin)} for begin in begins],
            "at_least_one": rng.random() < 0.3,
            "stop_after_first": rng.random() < 0.3,
        }

    def _tags_with_separator(self, depth: int) -> dict[str, Any]:
        rng = self.rng
        return {
            "tags": [{"type": "tag", **self._tag(depth)} for _ in range(rng.randint(1, 2))],
            "separator": self.word((",", ", ", "\n", "")),
            "at_least_one": rng.random() < 0.3,
            "stop_after_first": rng.random() < 0.3,
        }

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
        found: dict[str, Any] = {"rules": [[word, self.format(depth + 1)] for word in words]}
        if rng.random() < 0.4:
            found["loop"] = False
        if rng.random() < 0.3:
            found["excludes"] = [self.word(("ba", "]", "ö"))]
        return found


def draw_structural_tag(rng: random.Random) -> Drawn:
    """A structural tag of strings; tags that name ids are drawn as grammars (`draw_token_ids`)."""
    tags = _Tags(rng)
    source = json.dumps({"type": "structural_tag", "format": tags.format(0)})
    return Drawn("structural_tag", "structural_tag", source, tuple(tags.texts), counts=tags.counts)
