"""Metrics count every mask once, group times by a closed set of labels, and reveal nothing of a schema's
content.

What: counts of masks for each way to fill them; first masks and compilations; keywords; the bound on the
number of series; the dashboard, whose expressions name existing metrics and labels.
When: after any change of `hybrid.metrics`, of `hybrid.compile.statistics`, or of code that fills masks.
Limits: `tests/test_metrics_served.py` has the tests that need prometheus_client.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest
import torch

from equivalence import GrammarError
from hybrid import BatchGrammarMatcher, GrammarCompiler, GrammarMatcher, allocate_token_bitmask
from hybrid.api.calls import masks_filled
from hybrid.compile.durations import BOUNDS, Durations
from hybrid.compile.statistics import MOST_UNREAD, OF_PROCESS, OTHER
from hybrid.metrics import DASHBOARD, FAMILIES
from hybrid.metrics.families import current_counts, samples
from tests.caches import compiler_in
from tests.matchers import STRATEGIES
from tests.test_artifact import SCHEMA, VOCABULARY
from tests.test_forks import in_a_child

SECRET = "confidential"


def shown() -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """All samples, by name and labels."""
    found = current_counts()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in FAMILIES
        for sample in samples(family, found)
    }


def value(name: str, **labels: str) -> float:
    return shown().get((name, tuple(sorted(labels.items()))), 0.0)


def row() -> torch.Tensor:
    return allocate_token_bitmask(4, VOCABULARY.size)


# --- Masks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["auto", *STRATEGIES])
def test_every_mask_is_counted_once(strategy: str) -> None:
    compiled = GrammarCompiler(VOCABULARY, strategy=strategy).compile_regex("[a-c]{2,6}")
    first, second, third = matchers = [GrammarMatcher(compiled) for _ in range(3)]
    bitmask, batch = row(), BatchGrammarMatcher()
    tree = torch.tensor([1, -1, -1]), torch.tensor([-1, 2, -1]), torch.tensor([0, 97, 98])
    ways: list[tuple[Callable[[], Any], int]] = [
        (lambda: first.fill_next_token_bitmask(bitmask), 1),
        (lambda: first.fill_next_token_bitmask(bitmask), 1),  # which is cached now
        (lambda: first.fill_next_token_bitmask(bitmask.numpy(), 1), 1),
        (lambda: batch.batch_fill_next_token_bitmask(matchers, bitmask, [0, 1, 2]), 3),
        (lambda: batch.batch_fill_next_token_bitmask(matchers[:1], bitmask), 1),
        (lambda: second.fill_limited_bitmask(bitmask, 5), 1),
        (lambda: third.traverse_draft_tree(*tree, row()[:3]), 3),
        (lambda: GrammarMatcher(compiled).explain(), 0),
    ]
    for number, (fill, masks) in enumerate(ways):
        before = masks_filled()
        fill()
        assert masks_filled() - before == masks, number
    assert value("equimask_masks_total") == masks_filled()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_begins_anew() -> None:
    matcher = GrammarMatcher(GrammarCompiler(VOCABULARY).compile_regex("a"))
    matcher.fill_next_token_bitmask(row())
    assert masks_filled() > 0 and OF_PROCESS.snapshot()["compilations"] > 0

    def look_there() -> None:
        assert masks_filled() == OF_PROCESS.snapshot()["compilations"] == 0

    in_a_child(look_there)


# --- Times -------------------------------------------------------------------------------------------------


def firsts(strategy: str, semantics: str) -> float:
    counts = current_counts()["first_mask_seconds"].get(strategy, {}).get(semantics, {}).get("counts", [])
    return float(sum(counts))


@pytest.mark.parametrize(
    ("strategy", "semantics", "kind", "grammar"),
    [
        ("classifier", "none", "regex", "(ab)*"),
        ("classifier", "xgrammar", "json_schema", SCHEMA),
        ("classifier", "json-schema", "json_schema", SCHEMA),
        ("classifier", "none", "lark", 'start: "a"+'),
        ("representatives", "none", "regex", "(ab)*"),
        ("engine", "xgrammar", "json_schema", SCHEMA),
    ],
)
def test_the_first_mask_of_a_grammar_is_timed_once(
    strategy: str, semantics: str, kind: str, grammar: Any
) -> None:
    options = {} if semantics == "none" else {"semantics": semantics}
    asked_for = "auto" if strategy == "classifier" else strategy
    compiler = GrammarCompiler(VOCABULARY, strategy=asked_for, **options)
    compile_it = getattr(compiler, f"compile_{kind}")
    before = firsts(strategy, semantics)
    compiled = compile_it(grammar)
    assert compiled.strategy == strategy
    own = compiler.stats()
    assert sum(own["compile_seconds"][strategy][semantics]["counts"]) == 1
    assert own["first_mask_seconds"] == {}
    for _ in range(2):
        matcher = GrammarMatcher(compiled)
        for _ in range(3):
            matcher.fill_next_token_bitmask(row())
    assert compile_it(grammar) is compiled, "found in memory, which begins nothing"
    assert firsts(strategy, semantics) == before + 1
    own = compiler.stats()["first_mask_seconds"][strategy][semantics]
    assert sum(own["counts"]) == 1 and 0 < own["sum"] < 60


def test_a_grammar_from_a_file_has_a_first_mask_too(tmp_path: Any) -> None:
    for _ in range(2):
        compiler = compiler_in(tmp_path)
        GrammarMatcher(compiler.compile_regex("[x-z]+")).fill_next_token_bitmask(row())
        assert sum(compiler.stats()["first_mask_seconds"]["classifier"]["none"]["counts"]) == 1
    assert compiler.stats()["disk"]["hits"] == 1 and compiler.stats()["compile_seconds"] == {}


def test_a_time_counts_in_one_range() -> None:
    durations = Durations()
    for seconds in (0.0, BOUNDS[0], BOUNDS[0] * 1.001, BOUNDS[-1], 1e9):
        durations.add(("a", "b"), seconds)
    found = durations.snapshot()["a"]["b"]
    assert found["counts"] == [2, 1, *[0] * (len(BOUNDS) - 3), 1, 1]
    assert found["sum"] == pytest.approx(1e9 + BOUNDS[-1] + 2.001 * BOUNDS[0])


# --- Keywords ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "options", "keyword", "error"),
    [
        ({"type": "string", "pattern": "(a)\\1"}, {"semantics": "json-schema"}, "pattern", "SchemaRefused"),
        ({"type": "array", "uniqueItems": True}, {"strict": True}, "uniqueItems", "GrammarError"),
    ],
)
def test_refusals_are_counted_by_keyword(
    schema: dict[str, Any], options: dict[str, Any], keyword: str, error: str
) -> None:
    compiler = GrammarCompiler(VOCABULARY)
    before = value("equimask_refusals_total", keyword=keyword)
    with pytest.raises(GrammarError):
        compiler.compile_json_schema(schema, **options)
    assert compiler.stats()["refusals"] == {keyword: 1}
    assert compiler.stats()["errors"] == {error: 1}
    assert value("equimask_refusals_total", keyword=keyword) == before + 1


def test_relaxations_of_both_meanings(monkeypatch: pytest.MonkeyPatch) -> None:
    unique, pattern = (value("equimask_relaxations_total", keyword=one) for one in ("uniqueItems", "pattern"))
    monkeypatch.setattr(OF_PROCESS, "keeps_schemas", True)
    compiler = GrammarCompiler(VOCABULARY)
    compiler.compile_json_schema({"type": "array", "items": {"type": "integer"}, "uniqueItems": True})
    assert compiler.stats()["relaxations"] == {}, "found when somebody looks"
    compiler.compile_json_schema({"type": "string", "pattern": "(a)\\1"}, semantics="json-schema", relax=True)
    assert compiler.stats()["relaxations"] == {"pattern": 1}
    assert value("equimask_relaxations_total", keyword="uniqueItems") == unique + 1
    assert value("equimask_relaxations_total", keyword="pattern") == pattern + 1


def test_schemas_that_are_looked_at_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OF_PROCESS, "keeps_schemas", True)
    compiler = GrammarCompiler(VOCABULARY, cache_enabled=False)
    current_counts()
    before = value("equimask_unread_schemas_total")
    compiled = compiler.compile_json_schema(SCHEMA)
    for _ in range(MOST_UNREAD + 9):
        OF_PROCESS.compiled(compiled)
    assert value("equimask_unread_schemas_total") == before + 10
    assert value("equimask_unread_schemas_total") == before + 10 and not OF_PROCESS._unread


def test_nothing_of_a_schema_is_a_label(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OF_PROCESS, "keeps_schemas", True)
    schema = {
        "type": "object", "title": SECRET, "$ref": f"#/$defs/{SECRET}", SECRET: {"type": SECRET},
        "$defs": {SECRET: {"type": "object", "properties": {SECRET: {"const": SECRET, "format": SECRET}}}},
        "patternProperties": {SECRET: {"pattern": f"{SECRET}(?<!x)"}}, "dependencies": {SECRET: [SECRET]},
    }  # fmt: skip
    compiler = GrammarCompiler(VOCABULARY)
    for semantics in ("xgrammar", "json-schema"):
        for options in ({}, {"strict": True}, {"relax": semantics == "json-schema"}):
            with contextlib.suppress(GrammarError):
                compiled = compiler.compile_json_schema(schema, semantics=semantics, **options)
                GrammarMatcher(compiled).fill_next_token_bitmask(row())
    for broken in (f"root ::= {SECRET}", f'root ::= "{SECRET}'):
        with pytest.raises(GrammarError):
            compiler.compile_grammar(broken)
    OF_PROCESS.refused([SECRET, "", "type"])
    found = [label for _, labels in shown() for _, label in labels]
    assert found and not any(SECRET in label for label in found)
    assert value("equimask_refusals_total", keyword=OTHER) > 0


@pytest.mark.shared_memory
def test_bytes_are_those_of_the_caches(tmp_path: Any) -> None:
    before = value("equimask_memory_bytes"), value("equimask_memory_limit_bytes")
    compilers = [compiler_in(tmp_path, cache_limit_bytes=10**8 + 1) for _ in range(2)]
    assert value("equimask_memory_limit_bytes") == before[1] + 10**8 + 1, "two that share one count once"
    for compiler in compilers:
        compiler.compile_regex("[a-f]+")
    assert value("equimask_memory_bytes") == before[0] + compilers[1].stats()["memory"]["bytes"] > before[0]
    assert value("equimask_disk_bytes") >= compilers[0].stats()["disk"]["bytes"] > 0


# --- The dashboard -----------------------------------------------------------------------------------------


def test_the_dashboard_is_one_of_grafana() -> None:
    found = json.loads(DASHBOARD.read_text("utf-8"))
    assert found["title"] and found["uid"] and found["schemaVersion"] >= 36 and "id" not in found
    panels = found["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) > 10
    covered: list[tuple[int, int]] = []
    for panel in panels:
        assert panel["title"] and panel["description"] and panel["type"] in ("timeseries", "stat")
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"]) > 0
        x, y, width, height = (panel["gridPos"][one] for one in "xywh")
        covered += product(range(x, x + width), range(y, y + height))
    assert len(set(covered)) == len(covered) and all(0 <= x < 24 for x, _ in covered)
    variables = {one["name"] for one in found["templating"]["list"]}
    assert set(re.findall(r"\$\{?(\w+)", json.dumps(found))) == variables | {"__rate_interval", "__all"}


def test_grafanas_own_model_reads_all_of_it() -> None:
    """Reading and writing with the model of Grafana's schema loses nothing: it drops what it does not
    know."""
    pytest.importorskip("grafana_foundation_sdk")
    from grafana_foundation_sdk.cog import plugins
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.models.dashboard import Dashboard

    plugins.register_default_plugins()
    given = json.loads(DASHBOARD.read_text("utf-8"))
    written = json.loads(json.dumps(Dashboard.from_json(given), cls=JSONEncoder))
    # Grafana writes it beside each query of a variable; the model has no field for it
    lost = {*leaves(given)} - {*leaves(written)}
    assert [pointer for pointer, _ in lost] == ["/templating/list/1/definition"]


def leaves(part: Any, pointer: str = "") -> Iterator[tuple[str, Any]]:
    """The pointers to the values in a document that are no objects and no lists, and these values."""
    if isinstance(part, (dict, list)):
        for key, inner in part.items() if isinstance(part, dict) else enumerate(part):
            yield from leaves(inner, f"{pointer}/{key}")
    else:
        yield pointer, part


def test_its_expressions_name_what_exists() -> None:
    labels = {name: {*family.labels} for family in FAMILIES for name in family.sample_names}
    for family in FAMILIES:
        if family.kind == "histogram":
            labels[f"{family.name}_bucket"].add("le")
    named = set()
    for panel in json.loads(DASHBOARD.read_text("utf-8"))["panels"]:
        for target in panel["targets"]:
            metrics = re.findall(r"equimask_\w+", target["expr"])
            assert metrics and set(metrics) <= labels.keys()
            named |= {*metrics}
            known = set.union(*(labels[name] for name in metrics))
            grouped = re.findall(r"by \(([^)]*)\)", target["expr"])
            asked = {label.strip() for group in grouped for label in group.split(",")}
            asked |= {*re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])}
            asked |= {*re.findall(r"[{,]\s*(\w+)\s*=", target["expr"])} - {"instance"}
            assert asked <= known, target["expr"]
    assert all(named & {*family.sample_names} for family in FAMILIES), "each metric has its place"
