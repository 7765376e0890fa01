"""The results of many schemas on many engines: counts, reasons, times.

What: `summarise` computes from kept results what is written to a record. `reason` finds the words under which
a refusal is counted.
When: after `bench.json_schema.runner`.
Limits: an instance counts as valid by the judge's verdict, or by its label if there is none. If an engine
refuses a schema, or was killed on it, there are no verdicts.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.json_schema.judge import judged
from bench.report import Spread

Row = Mapping[str, Any]

KEYWORDS = (
    "$anchor", "$dynamicRef", "$id", "$recursiveRef", "$ref", "additionalItems", "additionalProperties",
    "allOf", "anyOf", "const", "contains", "contentEncoding", "contentMediaType", "dependencies",
    "dependentRequired", "dependentSchemas", "else", "enum", "exclusiveMaximum", "exclusiveMinimum",
    "format", "if", "items", "maxContains", "maxItems", "maxLength", "maxProperties", "maximum",
    "minContains", "minItems", "minLength", "minProperties", "minimum", "multipleOf", "not", "oneOf",
    "pattern", "patternProperties", "prefixItems", "properties", "propertyNames", "required", "then",
    "type", "unevaluatedItems", "unevaluatedProperties", "uniqueItems",
)  # fmt: skip

QUOTED = re.compile(r"""["'`/]({})["'`]""".format("|".join(map(re.escape, KEYWORDS))))

DISTINCT = re.compile(
    r"(?<![\w$])({})(?!\w)".format(
        "|".join(re.escape(one) for one in KEYWORDS if one[0] == "$" or one.lower() != one)
    )
)
"""Finds keywords that are not English words."""

ORIGIN = re.compile(r"^[A-Za-z_.]+: (\[[\d:]+\] \S+:\d+: (Check failed: )?)?")
"""The part before a message: the name of an exception, a time, and a place in source code."""


def reason(refusal: str) -> str:
    """Return a keyword that a refusal names; else its first words, without what differs from schema to
    schema."""
    text = ORIGIN.sub("", refusal.strip())
    lines = text.splitlines() or [""]
    found = QUOTED.search(lines[0]) or DISTINCT.search(lines[0])
    if found:
        return found.group(1)
    words = re.sub(r"[\"'`].*?[\"'`]|\d+", "...", lines[0]).split()
    return " ".join(words[:7]) or "nothing said"


EVERYWHERE = ("type", "properties", "items", "$ref", "additionalProperties", "required")
"""Keywords that hardly tell why a text is refused, because most schemas have them."""


def what_stands_there(keywords: Sequence[str]) -> str:
    """Return the keywords at the place where a text is refused, in one line: only the special ones, if there
    are any."""
    known = sorted(set(keywords) & set(KEYWORDS))
    return ", ".join([word for word in known if word not in EVERYWHERE] or known) or "no keyword"


@dataclass
class Standing:
    """The results of one engine on all schemas.

    Attributes:
        schemas: number of schemas that it got.
        outcomes: number of schemas by outcome: "done", "refused", "over time", "over memory", "crashed".
        failed: number of schemas on which it raised an exception while it read an instance.
        right: number of accepted schemas for which it judges all instances correctly.
        valid, valid_refused, invalid, invalid_accepted: numbers of instances of the accepted schemas.
        schemas_refusing, schemas_accepting: numbers of schemas with a refused valid instance, and with an
            accepted invalid one.
        schemas_accepting_silently: those of the latter for which the engine does not say that it leaves
            something out.
        refusals: number of refused schemas by reason.
        accepted: number of accepted invalid instances by the keyword that they break.
        unwritten: number of refused valid instances by the keywords at the place of the refusal.
        spellings: number of valid instances by the first spelling that was accepted.
        dead_ends: number of masks without a bit.
        unlike: number of tokens about which a mask and its matcher disagree.
        wrong: names, numbers and words of all errors, for people to look at.
    """

    schemas: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    failed: int = 0
    right: int = 0
    valid: int = 0
    valid_refused: int = 0
    invalid: int = 0
    invalid_accepted: int = 0
    schemas_refusing: int = 0
    schemas_accepting: int = 0
    schemas_accepting_silently: int = 0
    refusals: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)
    unwritten: Counter[str] = field(default_factory=Counter)
    spellings: Counter[str] = field(default_factory=Counter)
    dead_ends: int = 0
    unlike: int = 0
    wrong: list[dict[str, Any]] = field(default_factory=list)
    first_mask: array[float] = field(default_factory=lambda: array("d"))
    first_mask_cpu: array[float] = field(default_factory=lambda: array("d"))
    masks: array[float] = field(default_factory=lambda: array("d"))
    steps: array[float] = field(default_factory=lambda: array("d"))

    def add(self, row: Row, labels: Sequence[bool], verdict: Row) -> None:
        """Count one schema."""
        self.schemas += 1
        self.outcomes[row["outcome"]] += 1
        for name in ("first_mask", "first_mask_cpu"):
            if row.get(name) is not None:
                getattr(self, name).append(row[name])
        if row["outcome"] == "refused":
            self.refusals[reason(row["refusal"])] += 1
            return
        if row["outcome"] == "over time" and row.get("first_mask") is None:
            self.first_mask.append(row["seconds"])  # the bound counts, as in MaskBench
        if row["outcome"] != "done":
            self._note(row, None, row["outcome"])
            return
        self.masks.extend(one / 1e6 for one in row["masks"])
        # As in MaskBench, each mask counts with the token after it; the last mask has no token.
        self.steps.extend(
            (mask + token) / 1e6 for mask, token in zip(row["masks"], row["tokens"], strict=False)
        )
        self.dead_ends += row["dead_ends"]
        self.unlike += row["unlike"]
        failures = [one["failure"] for one in row["instances"] if one["failure"]]
        self.failed += bool(failures)
        before = self.valid_refused, self.invalid_accepted
        for number, taken in enumerate(row["instances"]):
            self._count(row, number, taken, judged(labels[number], verdict["verdicts"][number]), verdict)
        self.schemas_refusing += self.valid_refused > before[0]
        if self.invalid_accepted > before[1]:
            self.schemas_accepting += 1
            self.schemas_accepting_silently += not row["left_out"]
        self.right += not failures and (self.valid_refused, self.invalid_accepted) == before

    def _count(self, row: Row, number: int, taken: Row, is_valid: bool, verdict: Row) -> None:
        if taken["failure"]:
            self._note(row, number, taken["failure"])
            return
        if is_valid:
            self.valid += 1
            if taken["how"]:
                self.spellings[taken["how"]] += 1
            else:
                self.valid_refused += 1
                self.unwritten[what_stands_there(taken["keywords"])] += 1
                self._note(row, number, f"valid, and refused at {taken['stopped']}: {taken['around']}")
            return
        self.invalid += 1
        if taken["how"]:
            self.invalid_accepted += 1
            broken = verdict["why"][number][-1:] if verdict["verdicts"][number] is False else ()
            self.accepted[next(iter(broken), "not said")] += 1
            told = ", ".join(verdict["why"][number])
            self._note(row, number, f"invalid ({told}), and accepted {taken['how']}")

    def _note(self, row: Row, number: int | None, words: str) -> None:
        self.wrong.append({"name": row["name"], "instance": number, "what": words})

    def record(self) -> dict[str, Any]:
        """Return the results for the record, with times as spreads."""
        found = {name: value for name, value in vars(self).items() if not isinstance(value, array)}
        for name in ("refusals", "accepted", "unwritten", "spellings", "outcomes"):
            found[name] = dict(found[name].most_common())
        found["spreads"] = {
            name: Spread.of(value) for name, value in vars(self).items() if isinstance(value, array)
        }
        # Curves are drawn through some sixty quantiles of each of these.
        found["first_masks"] = [round(value, 7) for value in self.first_mask]
        return found


def mislabelled(labels: Mapping[str, Sequence[bool]], verdicts: Mapping[str, Row]) -> Iterator[Row]:
    """Return all instances whose label differs from the verdict of `jsonschema`."""
    for name, own in labels.items():
        row = verdicts[name]
        for number, label in enumerate(own):
            if judged(label, row["verdicts"][number]) != label:
                yield {"name": name, "instance": number, "label": label, "why": row["why"][number]}


def summarise(
    labels: Mapping[str, Sequence[bool]], verdicts: Mapping[str, Row], rows: Mapping[str, Mapping[str, Row]]
) -> dict[str, Standing]:
    """Return the results of each engine.

    Args:
        labels: the labels, by the name of a file.
        verdicts: the judge's rows, by the name of a file.
        rows: the rows, by engine and name.
    """
    found = {}
    for engine, own in rows.items():
        found[engine] = Standing()
        for name, told in labels.items():
            if name in own:
                found[engine].add(own[name], told, verdicts[name])
    return found
