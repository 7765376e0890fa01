"""The report: all questions on tiny inputs, the page in a browser, stored records, differences between
records.

What: jobs run in this process on small grammars, without the parts that start other processes; one real job
shows how failures are reported.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from bench.cases import CHECKOUT
from bench.json_schema import runner
from bench.report import make_console
from bench.reporting import differences, inputs, jobs, markdown, questions
from bench.reporting.standings import OURS, Standing
from bench.schema_rows import JSON_SCHEMA
from bench.tables import together
from tests.benches import WorkerHere, run, vocabulary_with, write_schemas
from tests.browser import needs_browser, shown

pytest.importorskip("matplotlib", reason="pages have pictures; pip install 'equimask[bench]'")


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
HOSTILE = "<img src=x onerror=alert(1)>"


RECORDS = {
    "fuzz": {
        "bench": "fuzz", "cases": 1, "masks": 7, "wrong_bits": 0, "other_errors": 0, "refusals": {},
        "crashes": 0, "hangs": 0, "rows": [{"kind": "ebnf", "strategy": "auto", "cases": 1, "masks": 7}],
    },
    "tags": {"benchmark": "tags", "rows": [{
        "tools": 1, "strategy": "classifier", "first mask, ms": [1.0, 2.0],
        "masks of the first text, ms": [3.0, 4.0], "masks of the fifth text, ms": [0.3, 0.4],
        "one the second time, us": [5.0, 6.0], "masks": 3, "differences": 0,
    }]},
    "drafts": {"benchmark": "drafts", "rows": [{
        "grammar": "x", "texts": "real", "method": "drafts", "documents": 2,
        "tokens a step": [None, 1.5, 2.5, None], "us a step": 12.0,
    }]},
    "traffic": {
        "benchmark": "traffic", "requests": 10, "masks": 5, "differences": 0, "resident_bytes": 1 << 20,
        "growth_bytes_a_request": None, "wrong": [],
    },
    "killed": {
        "benchmark": "killed", "kills": 3, "while_writing": 1, "events": {"made": 2}, "entries": 2,
        "loaded": 2, "damaged": 0, "wrong": [],
    },
}  # fmt: skip
"""Records of programs other than the benchmarks, and of jobs that a quick report leaves out."""


SMALLER = {
    name: text.split()
    for name, text in {
        "grammar": "--builds 0 --rounds 1 --batch 2 --plain-masks 5 --max-tokens 9",
        "lark": "--builds 0 --rounds 1 --batch 2 --judged-files 1 --judged-steps 2",
        "generating": "--batch 1 --tokens 4 --repeats 1",
        "strategies": "--most 2",
        "classes": "--no-memory",
        "maskbench": "--engines equimask:xgrammar",
        "growth": "--most-depth 2 --at-once 2",
    }.items()
}


def ended(job: jobs.Job, folder: Path, key: str, status: int = 0, record: Any = None) -> jobs.Done:
    """Write the result of a job as if it had run, with a record of its own or one that is there."""
    if record is not None:
        (folder / f"{job.name}.json").write_text(json.dumps(record))
    told = {"name": job.name, "key": key, "status": status, "seconds": 0.1}
    (folder / f"{job.name}.done").write_text(json.dumps(told))
    done = jobs.read(folder, job.name)
    assert done is not None
    return done


def run_here(job: jobs.Job, folder: Path, key: str) -> jobs.Done:
    """Run a job in this process, without the parts that start other processes; the job of question d
    fails."""
    arguments = [*job.arguments, "--json", str(folder / f"{job.name}.json")]
    if job.program != "bench":
        return ended(job, folder, key, record=RECORDS[job.kind])
    arguments += SMALLER.get(arguments[0], ())
    if arguments[0] in ("tools", "lengths"):
        large = arguments.index("--tools" if arguments[0] == "tools" else "--longest") + 1
        arguments[large] = "2" if arguments[0] == "tools" else "100"
    if arguments[0] == "starting":
        arguments = ["starting", "--no-such-option", HOSTILE]
    status = run(*arguments).exit_code
    done = ended(job, folder, key, status)
    done.said = [HOSTILE] * bool(status)
    return done


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of everything, made twice; the file ``ran`` lists the jobs of both runs."""
    folder = tmp_path_factory.mktemp("report")
    words = [b'{"', b'": ', b'"a"', b"12", b"}", b"int ", b"SELECT "]
    vocabulary_with(*words).save(folder / "tiny.npz")
    names = ("Made_easy---one", "Made_easy---two", f"{HOSTILE}---three".replace("/", ""))
    labelled = [(True, {"a": 1}), (False, {"a": "x"})]
    write_schemas(folder / "schemas", {name: (SCHEMA | {"title": name}, labelled) for name in names})
    (folder / "json").mkdir()
    for number in range(2):
        (folder / "json" / f"{number}.json").write_text(f'{{"a": {number}}}')
    (folder / "grammars").mkdir()
    (folder / "grammars" / "pair.gbnf").write_text('root ::= "(" [a-z]+ "," [0-9]* ")"\n')
    (folder / "README.md").write_text(f"Before\n{markdown.BEGIN}\nold\n{markdown.END}\nBehind\n")
    arguments: list[Any] = ["report", "--quick", "--out", folder / "out", "--vocabulary", folder / "tiny.npz"]
    arguments += ["--schemas", folder / "schemas", "--documents", f"json={folder / 'json'}"]
    arguments += ["--limit", 2, "--markdown", folder / "page.md", "--readme", folder / "README.md"]
    ran: list[str] = []

    def run_and_note(job: jobs.Job, *others: Any) -> jobs.Done:
        ran.append(job.name)
        return run_here(job, *others)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobs, "run", run_and_note)
        patch.setattr(runner, "Process", WorkerHere)
        patch.setattr(questions, "GRAMMARS", folder / "grammars")
        patch.setattr(questions, "EBNF", {name: questions.EBNF[name] for name in ("json", "sql")})
        patch.setattr(questions, "LARK", {"json": questions.LARK["json"]})
        for _ in range(2):
            result = run(*arguments)
            assert result.exit_code == 1, result.output  # only for the job that fails
            assert re.findall("did not end well: (.*)", result.output) == ["starting-tiny"], result.output
    (folder / "ran").write_text("\n".join(ran))
    return folder


def test_records_are_not_made_twice(made: Path) -> None:
    ran = (made / "ran").read_text().splitlines()
    assert sorted({name for name in ran if ran.count(name) > 1}) == ["starting-tiny"]
    assert len({name.split("-")[0] for name in ran}) == 18  # kinds of jobs


def test_the_page_has_tables_and_pictures(made: Path) -> None:
    page = (made / "out" / "report.html").read_text()
    assert HOSTILE not in page and "&lt;img src=x" in page
    for word in ("no documents for the grammar sql", "builtin:json", "pair"):
        assert word in page
    assert re.search(r"<b>0</b><span>differences from XGrammar in [1-9][0-9,]* masks", page)
    for section in re.findall(r'<section id="question-.*?</section>', page, re.DOTALL):
        assert section.count("<td") > 4 or "not in a quick report" in section
    assert page.count("<svg") >= 5 and "<script" not in page
    assert "http:" not in re.sub(r'xmlns(:\w+)?="[^"]*"', "", page)


def test_pages_are_rendered_again(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(made / "out", tmp_path / "out")
    for kind in ("drafts", "traffic", "killed"):
        ended(jobs.Job(f"{kind}-x", (), 1), tmp_path / "out" / "records", "", record=RECORDS[kind])
    shutil.copy(made / "README.md", tmp_path)
    monkeypatch.chdir(tmp_path)
    result = run("page", "out", "--markdown", "docs.md", "--readme", "README.md")
    assert result.exit_code == 0, result.output
    text, readme = ((tmp_path / name).read_text() for name in ("docs.md", "README.md"))
    assert readme.startswith("Before\n<!--") and readme.endswith("-->\nBehind\n") and "\nold\n" not in readme
    assert "<svg" in (tmp_path / "docs" / "first-mask.svg").read_text()
    assert HOSTILE not in text and "{{" not in text + readme
    for section in text.split("\n## ")[1:]:
        assert section.count("\n| ") > 1, section
    assert "options: " not in text and "--only options" in text
    assert len(quoted(readme)) > 4 and quoted(readme) <= set(text.splitlines())


def quoted(readme: str) -> set[str]:
    """The lines of the README's table that come from records."""
    block = readme.partition(markdown.BEGIN)[2].partition(markdown.END)[0]
    return {line for line in block.splitlines() if re.match(r"\| (?!MaskBench)", line)}


def test_the_readme_quotes_the_page() -> None:
    readme, page = (Path(CHECKOUT, name).read_text() for name in ("README.md", "docs/measurements.md"))
    assert readme.count(markdown.BEGIN) == readme.count(markdown.END) == 1
    if not page.startswith("<!-- Rendered by"):
        pytest.skip("docs/measurements.md is not rendered yet")
    assert len(quoted(readme)) > 4 and quoted(readme) <= set(page.splitlines())


def test_the_readme_quotes_maskbench() -> None:
    """The README and its template have the figures of docs/json-schema.md."""

    def cells(line: str) -> list[str]:
        return line.strip("| ").split(" | ")

    template, readme, page = (
        Path(CHECKOUT, name).read_text()
        for name in ("bench/reporting/readme.md", "README.md", "docs/json-schema.md")
    )
    table = page.partition("## How it compares")[2].partition("\n## ")[0]
    assert "11,305 files" in table and "37,011 labelled instances" in table
    rows = [cells(line) for line in readme.splitlines() if line.startswith("| MaskBench")]
    head = next(cells(line) for line in readme.splitlines() if line.startswith("| p50"))
    for engine in (JSON_SCHEMA, "XGrammar 0.2.8", "llguidance 1.9.1"):
        start = f"| {engine.partition(',')[0]}"
        written = next(cells(line) for line in table.splitlines() if line.startswith(start))
        _, refused, _, valid, invalid = written
        expected = [re.sub(r"\*|.*\(|\).*", "", cell) for cell in (valid, invalid, refused)]
        assert [row[head.index(engine)] for row in rows] == expected
        assert f'"{engine}": {tuple(expected)},'.replace("'", '"') in template


def test_a_record_is_filled_in_parts(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(made / "out", tmp_path / "out")
    before = (tmp_path / "out" / "records" / "scaling.json").read_bytes()
    own = ("report", "--quick", "--out", tmp_path / "out", "--vocabulary", made / "tiny.npz")
    monkeypatch.setattr(jobs, "run", run_here)
    result = run(*own, "--only", "g", "--only", "fuzz")
    assert result.exit_code == 0, result.output
    assert "fuzz: done" in result.output and "tags-tiny: done" in result.output
    assert "scaling" not in result.output
    assert (tmp_path / "out" / "records" / "scaling.json").read_bytes() == before
    assert "Growth with the vocabulary" in (tmp_path / "out" / "report.html").read_text()


def test_what_a_quick_report_asks() -> None:
    given = inputs.Inputs(["tekken"], [Path("schemas")], {"json": Path("json"), "sql": Path("sql")})
    asked = questions.asked(given, inputs.QUICK)
    assert sum(job.seconds for one in asked for job in one.jobs) < 35 * 60
    asked = questions.asked(inputs.Inputs(["tekken"]), inputs.QUICK)
    assert all(one.missing for one in asked if one.letter in "cf" and one.letter)
    assert any("--documents sql=PATH" in line for one in asked for line in one.missing)


def test_markdown_shows_texts_as_they_are() -> None:
    assert markdown.plain("a|b\n<img>") == "a\\|b &lt;img&gt;"
    assert (together([1.2e-3, 7.9e-3, 1.3]), together([1e-6, None])) == ("1.2 / 7.9 ms / 1.3 s", "1 us / -")


@needs_browser
def test_a_browser_shows_it(made: Path, tmp_path: Path) -> None:
    page = shown(made / "out" / "report.html", tmp_path)
    assert page.count("<path") > 20 and page.count("<tr") > 20
    assert all("<td" in table for table in re.findall(r"<table.*?</table>", page, re.DOTALL))


def test_a_job_that_fails_says_why(tmp_path: Path) -> None:
    job = jobs.Job("wrong", (), 1, program="no_such_module")
    done = jobs.run_all(make_console(), [job], tmp_path)["wrong"]
    assert done.status == 1 and not done.record and "No module named" in "".join(done.said)
    assert jobs.kept(job, tmp_path, done.key) is None


def test_who_is_ahead() -> None:
    for ours, others, ahead, ratio, is_behind in (
        (1.0, {"XGrammar": 3.0, "llguidance": 2.0}, OURS, 0.5, False),
        (2.0, {"XGrammar": 3.0, "llguidance": 1.0}, "llguidance", 2.0, True),
        (1.05, {"XGrammar": 1.0}, "", 1.05, False),
    ):
        found = Standing("", "", {"equimask": ours, **others})
        assert (found.ratio, found.ahead, found.is_behind) == (ratio, ahead, is_behind)
    assert Standing("", "", {"equimask": 1.0}).ratio is None


def test_differences_compare_each_row() -> None:
    rows: list[dict[str, Any]] = [
        {"ids": 9, "dtype": "float32", "batch": 1}, {"ids": 9, "dtype": "float32", "batch": 2},
        {"ids": 9, "dtype": "bfloat16", "batch": 2}, {"family": "x", "tools": "one", "reasoning": True},
        {"family": "x", "tools": "one", "reasoning": False}, {"row": "a"}, {"row": "b"}, {"shape": "wide"},
    ]  # fmt: skip
    a, b = ({"rows": [row | {"time": float(i + n)} for i, row in enumerate(rows)]} for n in (1, 2))
    assert len(differences.ratios(a, b, None)["time"]) == len(rows)


def test_differences_of_records(made: Path, tmp_path: Path) -> None:
    record = made / "out" / "records" / "schemas-schemas-tiny.json"
    a, b = (json.loads(record.read_text()) for _ in range(2))
    for row in b["rows"]:
        row["requests"]["ours"]["first_mask"] *= 3
    found = differences.ratios(a, b, None)
    assert found["requests.ours.first_mask"] == pytest.approx([3.0, 3.0])
    assert found["requests.XGrammar.first_mask"] == [1.0, 1.0]
    assert all(name.endswith(".first_mask_cpu") for name in differences.ratios(a, b, "first_mask_cpu"))
    (tmp_path / "b.json").write_text(json.dumps(b))
    done = run("diff", record, tmp_path / "b.json")
    assert done.exit_code == 0 and "requests.ours.first_mask" in done.output
    both = run("diff", made / "out", made / "out", "--metric", "cpu_seconds")
    assert both.exit_code == 0 and "classes-tiny" in both.output
    assert run("diff", record, made / "out" / "records" / "strategies-tiny.json").exit_code == 2
