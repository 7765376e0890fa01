"""Tokens for each step of the model, with drafts from a grammar's state: how many, and what a draft costs.

What: documents are written one after the other, as a model would write them with drafts of some tokens: real
documents, and those of an n-gram model that was trained on half of them (`bench.simulated`). Drafts that
learn while serving are compared with drafts of forced text alone, and with transformers' prompt lookup with
one document in the prompt.
When: ``python -m bench drafts --lark java=FILE --documents java=FOLDER --vocabulary FOLDER --json FILE``.
Limits: there is no model: it is assumed that the model would write the document, whatever is drafted. A step
is one pass of the model; that a pass over nine tokens takes longer than over one is ignored. Comments at the
heads of files are removed. Costs are CPU time of `propose` and `learn` together, without masks.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import track

from bench import options, picture, workloads
from bench.reference import DocumentsOption, LarksOption, Reference, SchemasOption, Subject, asked_for, opened
from bench.reporting.answers import publish
from bench.simulated import Ngrams
from hybrid import GrammarMatcher
from hybrid.drafts import DraftModel

SPANS = ((0, 1), (1, 10), (10, 50), (50, 1 << 30))
"""For each column, a range of the number of documents served before."""


@dataclass
class Served:
    """What was written, for each document: tokens, steps, and seconds of drafting."""

    tokens: list[int] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def rate(self, begin: int, end: int) -> float | None:
        """Return the tokens for each step of some documents; None without steps."""
        steps = sum(self.steps[begin:end])
        return sum(self.tokens[begin:end]) / steps if steps else None


class OurDrafts:
    """Our drafts, with or without learning.

    Args:
        model: the draft model.
        most: most tokens of a draft.
        learns: whether it learns; otherwise only forced text is drafted.
    """

    def __init__(self, model: DraftModel, most: int, learns: bool = True) -> None:
        self._model, self._most, self._learns = model, most, learns

    def begin(self) -> None:
        """Begin a document."""
        self._matcher = GrammarMatcher(self._model.compiled_grammar)

    def propose(self) -> list[int]:
        """Return a draft."""
        return self._model.propose(self._matcher, self._most)

    def accept(self, ids: Sequence[int]) -> None:
        """Read what the model has written; this does not count as cost of drafts."""
        for token in ids:
            assert self._matcher.accept_token(token), "documents are of the grammar"

    def learn(self, new: int) -> None:
        """Learn from the new tokens."""
        if self._learns:
            self._model.learn(self._matcher, new)


class Lookup:
    """Transformers' prompt lookup, with a document in the prompt."""

    def __init__(self, prompt: Sequence[int], most: int) -> None:
        import torch
        from transformers.generation.candidate_generator import PromptLookupCandidateGenerator

        self._torch, self._prompt = torch, list(prompt)
        self._generator: Any = PromptLookupCandidateGenerator(
            num_output_tokens=most, max_matching_ngram_size=2, max_length=1 << 20
        )

    def begin(self) -> None:
        """Begin a document."""
        self._ids = self._torch.tensor([self._prompt])

    def propose(self) -> list[int]:
        """Return a draft."""
        found, _ = self._generator.get_candidates(self._ids)
        ids: list[int] = found[0, self._ids.shape[1] :].tolist()
        return ids

    def accept(self, ids: Sequence[int]) -> None:
        """Read what the model has written."""
        self._ids = self._torch.cat([self._ids, self._torch.tensor([list(ids)])], 1)

    def learn(self, new: int) -> None:
        """Do nothing: it does not learn."""


def serve(drafter: Any, documents: Sequence[Sequence[int]]) -> Served:
    """Write documents with drafts, one after the other."""
    found, clock = Served(), time.process_time
    for ids in documents:
        drafter.begin()
        at = steps = 0
        spent = 0.0
        while at < len(ids):
            began = clock()
            draft = drafter.propose()
            spent += clock() - began
            new = [*ids[at : at + 1 + kept(draft, ids[at:])]]
            drafter.accept(new)
            began = clock()
            drafter.learn(len(new))
            spent += clock() - began
            at, steps = at + len(new), steps + 1
        found.tokens.append(len(ids))
        found.steps.append(steps)
        found.seconds.append(spent)
    return found


def kept(draft: Sequence[int], ids: Sequence[int]) -> int:
    """Return how many tokens of a draft equal the tokens that follow."""
    count = 0
    while count < min(len(draft), len(ids)) and draft[count] == ids[count]:
        count += 1
    return count


def command(
    vocabulary: options.VocabularyOption,
    documents: DocumentsOption,
    json: options.RecordOption,
    lark: LarksOption = [],  # noqa: B006 - of typer
    schema: SchemasOption = [],  # noqa: B006
    most: Annotated[int, typer.Option(min=1, max=64, help="Tokens of a draft.")] = 8,
    threshold: Annotated[float, typer.Option(help="Of the draft model.")] = 0.1,
    count: Annotated[int, typer.Option(min=2, help="Documents of each grammar.")] = 160,
    most_tokens: Annotated[int, typer.Option(min=1, help="Of a document.")] = 2000,
    picture_file: Annotated[Path | None, typer.Option("--picture", help="An SVG file.")] = None,
    seed: options.SeedOption = 0,
) -> None:
    """Measure tokens for each step of the model with drafts, on real documents and on a simulated model's."""
    arguments = dict(locals())
    if picture_file is not None:
        with workloads.usage_errors():
            picture.pyplot()
    console, used = opened(vocabulary)
    found = asked_for(used, arguments)
    rows: list[dict[str, Any]] = []
    lines: dict[str, list[float]] = {}
    for subject in found:
        rng = random.Random(seed)
        half = len(subject.ids) // 2
        ngrams = Ngrams(subject.ids[:half])
        written = [
            ngrams.write(subject.compiled, rng, most_tokens)
            for _ in track(
                range(len(subject.ids)), f"{subject.name}: writing", console=console, transient=True
            )
        ]
        for source, texts in (("real", subject.ids), ("simulated", written)):
            for method, drafter in drafters(used, subject, texts, most, threshold):
                served = serve(drafter(), texts[1:])
                rows.append(row_of(subject, source, method, served))
                if method == "drafts":
                    lines[f"{subject.name}, {source}"] = running(served)
    publish(console, json, "drafts", arguments, {"rows": rows, "lines": lines})
    if picture_file is not None:
        picture.draw_rates(picture_file, lines, f"Tokens for each step of the model, drafts of {most}")


def drafters(
    used: Reference, subject: Subject, texts: Sequence[Sequence[int]], most: int, threshold: float
) -> list[tuple[str, Callable[[], Any]]]:
    """Return the methods of drafting: names, and functions that make them anew."""

    def model() -> DraftModel:
        return DraftModel(subject.compiled, threshold=threshold, encode=used.encode)

    return [
        ("drafts", lambda: OurDrafts(model(), most)),
        ("forced text alone", lambda: OurDrafts(model(), most, learns=False)),
        ("prompt lookup", lambda: Lookup(texts[0], most)),
    ]


def row_of(subject: Subject, source: str, method: str, served: Served) -> dict[str, Any]:
    """Return a row of the record. Costs are those of the second half, when tables are warm."""
    half = len(served.steps) // 2
    steps = sum(served.steps[half:])
    return {
        "grammar": subject.name,
        "texts": source,
        "method": method,
        "documents": len(served.steps),
        "tokens": sum(served.tokens),
        "tokens a step": [served.rate(begin, end) for begin, end in SPANS],
        "us a step": 1e6 * sum(served.seconds[half:]) / steps,
        "by document": [served.tokens, served.steps],
    }


def running(served: Served) -> list[float]:
    """Return the tokens per step by number of documents, each averaged with its neighbours."""
    found = []
    for at in range(len(served.steps)):
        reach = max(1, at // 4)
        rate = served.rate(max(0, at - reach), at + reach + 1)
        found.append(rate if rate is not None else 1.0)
    return found
