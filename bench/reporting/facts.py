"""The content of a page about a folder of records.

What: `gather` collects `Facts` from questions and the results of their jobs: sections with tables, how many
masks were compared, which engine is ahead where, and when and from which code each record was made.
When: in ``python -m bench report`` and ``python -m bench page``.
Limits: records of several machines may be in one folder; each section names the machines of its records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench import report
from bench.reporting import plots, requests
from bench.reporting.answers import answer
from bench.reporting.jobs import Done
from bench.reporting.questions import Question
from bench.reporting.standings import CLOSE, OURS, Standing, records, standings
from bench.tables import Cell, Table

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Made:
    """How a record was made."""

    name: str
    when: str
    commit: str
    load: str
    machine: str


@dataclass(frozen=True)
class Section:
    """The answer to one question; `failures` are jobs that failed, with their last output."""

    letter: str
    title: str
    tables: Sequence[Table]
    pictures: Sequence[plots.Picture]
    made: Sequence[Made] = ()
    missing: Sequence[str] = ()
    failures: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.letter or "equality"

    @property
    def origin(self) -> str:
        """How the records were made, by day and commit."""
        groups: dict[str, list[str]] = {}
        for one in self.made:
            day, _, time = one.when.partition(" ")
            own = groups.setdefault(f"{day}, commit {one.commit}, {one.machine}", [])
            own.append(f"{one.name} at {time}, load {one.load}")
        return " ".join(f"{where}: {'; '.join(names)}." for where, names in groups.items())


@dataclass(frozen=True)
class Headline:
    """The numbers of the README.

    Attributes:
        schemas: the record of new schemas with the most schemas; None if there is none.
        made: how it was made.
        table: its table.
    """

    schemas: Record | None = None
    made: Made | None = None
    table: Table | None = None


@dataclass(frozen=True)
class Facts:
    """The content of a page.

    Attributes:
        machines, packages: those of all records.
        masks, differences: how many masks were compared with plain XGrammar, and how many differences were
            found, over all records.
        when: rows of "when to use what".
        behind: where a peer is ahead of us.
        n_standings: number of rows that compare us with a peer.
        warnings: missing peers, and how to install them.
    """

    machines: Sequence[str]
    packages: Sequence[str]
    masks: int
    differences: int
    when: Table
    behind: Sequence[Standing]
    n_standings: int
    sections: Sequence[Section]
    headline: Headline
    warnings: Sequence[str]

    def section(self, name: str) -> Section:
        """Return the section of a question, given its letter or "equality"."""
        return next(one for one in self.sections if one.name == name)


def gather(asked: Sequence[Question], done: Mapping[str, Done], warnings: Sequence[str] = ()) -> Facts:
    """Collect the content of pages about these records."""
    rows = [row for one in asked for row in standings(one, done)]
    sections = [
        Section(
            one.letter, one.title, answer(one, done), plots.pictures(one, done),
            [made(job.name, done[job.name].record) for job in one.jobs if done[job.name].record], one.missing,
            {job.name: done[job.name].said for job in one.jobs if done[job.name].status != 0},
        )
        for one in asked
    ]  # fmt: skip
    masks, differences = compared(done)
    behind = sorted((row for row in rows if row.is_behind), key=lambda row: -(row.ratio or 0))
    packages = sorted({
        " ".join(package) for one in done.values() for package in one.record.get("packages", {}).items()
    })  # fmt: skip
    machines = sorted({one.machine for section in sections for one in section.made})
    return Facts(
        machines, packages, masks, differences, when_to_use(rows), behind,
        sum(row.ratio is not None for row in rows), sections, headline(asked, done), warnings,
    )  # fmt: skip


def made(name: str, record: Record) -> Made:
    """Return how a record was made."""
    commit, load, machine = (record.get(key) or {} for key in ("commit", "load_average", "machine"))
    text = str(commit.get("id", "unknown"))[:10] + (" with changes" if commit.get("dirty") else "")
    when = str(record.get("when", "unknown")).replace("T", " ")[:16]
    cores = f"{machine.get('cpu', 'unknown')}, {machine.get('usable_cores', '?')} cores"
    return Made(name, f"{when} UTC", text, f"{load[0]:.1f}" if load else "unknown", cores)


def headline(asked: Sequence[Question], done: Mapping[str, Done]) -> Headline:
    """Return what the README quotes."""
    found = [(name, own) for question in asked for name, own in records(question, done, "schemas")]
    if not found:
        return Headline()
    name, record = max(found, key=lambda one: len(one[1]["rows"]))
    return Headline(record, made(f"schemas-{name}", record), requests.new_schemas(name, record))


def compared(done: Mapping[str, Done]) -> tuple[int, int]:
    """Return how many masks were compared with plain XGrammar, and the differences, over all records."""
    masks = differences = 0
    for one in done.values():
        found = _compared(one.record)
        masks, differences = masks + found[0], differences + found[1]
    return masks, differences


def _compared(record: Record) -> tuple[int, int]:
    summary = record.get("summary", {})
    kind = record.get("benchmark", record.get("bench"))
    if kind in ("schemas", "grammar") and summary:
        more = summary.get("our_differences", 0) + len(summary.get("not_alike", ()))
        return summary["masks"], summary["differences"] + more
    if kind == "classes":
        of_schemas = [row for own in record.get("schemas", {}).values() for row in own["rows"]]
        rows = (*record["grammars"], *of_schemas)
        return sum(row["masks"] for row in rows), sum(len(row["errors"]) for row in rows)
    if kind == "tags":
        return _sum(record["rows"], "masks"), _sum(record["rows"], "differences")
    counted = {
        "equality": ("difference_count", "refused_by_one_side"), "strategies": ("differences",),
        "growth": ("differences",), "traffic": ("differences",), "fuzz": ("wrong_bits", "other_errors"),
    }  # fmt: skip
    if kind not in counted:
        return 0, 0
    return record.get("masks", 0), sum(record[what] for what in counted[kind])


def _sum(rows: Sequence[Record], what: str) -> int:
    return sum(row[what] for row in rows)


HEADLINES = (
    "to the first mask, p50", "to the first mask, p99", "first mask and one document, p50",
    "first mask and one document, p99", "a mask in its document (of what each engine takes), p50",
    "a mask, new document, mean", "a token, new document, mean", "compiling and first mask",
    "a mask, new file, mean", "a mask, new file, p99",
    "compiling (equimask: all of it before the first token)",
    "a new process: all but the vocabulary",
)  # fmt: skip
"""The first rows of "when to use what", in this order; rows that depend on the inputs follow."""


def place(row: Standing) -> int | None:
    """Return the place of a row among the headlines; None if it is not one."""
    if row.what in HEADLINES and not row.situation.endswith("other options"):
        return HEADLINES.index(row.what)
    starts = ("a schema for", "generate", "new schemas, many", "calls between", "tags of models")
    by_inputs = row.situation.startswith(starts)
    return len(HEADLINES) if by_inputs else None


def when_to_use(rows: Sequence[Standing]) -> Table:
    """Make a table that says, for each situation, which engine is ahead, over all vocabularies and
    grammars."""
    found = []
    groups: dict[tuple[str, str], list[Standing]] = {}
    told_of = [row for row in rows if row.ratio is not None and place(row) is not None]
    for row in sorted(told_of, key=lambda row: place(row) or 0):
        groups.setdefault((row.situation, row.what), []).append(row)
    for (situation, what), own in groups.items():
        ratios = sorted(row.ratio for row in own if row.ratio is not None)
        behind = sum(row.is_behind for row in own)
        leaders = sorted({row.ahead or "nobody clearly" for row in own})
        peers = sorted({name for row in own for name in row.values} - {OURS})
        same = sorted(row.values[OURS] / row.values["XGrammar"] for row in own if row.values.get("XGrammar"))
        look = "behind" if behind > len(own) / 2 else "best" if leaders == [OURS] else ""
        found.append([
            situation, what, ", ".join(peers), Cell(", ".join(leaders), look),
            Cell(_factor(ratios[len(ratios) // 2]), look), _factor(same[len(same) // 2]) if same else None,
            Cell(f"{behind} of {len(own)}", "behind" if behind else ""),
        ])  # fmt: skip
    note = (
        "Medians over vocabularies and grammars, against the best of the peers in each row. First find your "
        "situation, then see whether its row is green; amber says that a peer is ahead there."
    )
    columns = ["for", "what counts", "peers measured", "ahead", "equimask, next to the best peer"]
    columns += ["next to XGrammar (same masks)", "a peer is ahead in"]
    return Table("", columns, found, note)


def _factor(ratio: float) -> str:
    """Return our time divided by theirs, in words."""
    if 1 / CLOSE < ratio < CLOSE:
        return "equal"
    return f"{report.readable(max(ratio, 1 / ratio), 'x')} {'faster' if ratio < 1 else 'slower'}"
