"""A soak of mixed traffic: many threads, a small memory cache, and malformed and hostile schemas among the
valid ones.

What: serves requests from one compiler with a bounded memory cache in a process of its own: schemas of a
folder by Zipf's law, a share of malformed ones, and a share of hostile ones. It looks for errors, requests
that never end and a crash of the process, and checks the size of the cache, and the masks of a sample against
plain XGrammar's.
When: ``python -m tests.robustness.traffic --vocabulary SPEC --schemas FOLDER``;
`tests/robustness/test_soaks.py` runs a small one.
Limits: equal seeds give equal requests. Masks are kept as digests, and those of some requests are compared
afterwards, so that XGrammar's memory is not in the process; schemas that plain XGrammar does not compile in
time are not compared. A bit that XGrammar's own ``accept_token`` decides in our favour is no difference. A
request that hangs is noticed when all others are served. Resident memory is known on Linux only.
"""

from __future__ import annotations

import faulthandler
import json
import multiprocessing
import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from hashlib import blake2b
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
import xgrammar

from bench import options, report, workloads
from bench.forked import in_a_fork
from bench.reporting.answers import publish
from bench.workloads import SchemaFile
from hybrid import Budget, CompiledGrammar, GrammarCompiler, GrammarMatcher, HybridError
from hybrid.testing.comparison import Comparison
from hybrid.testing.mask_comparison import compare_along, flags_of
from hybrid.testing.random_walk import Walker
from hybrid.testing.segmentation import tokenize_greedy, tokenize_random
from tests.robustness import hostile_schemas
from tests.robustness.documents import mask_digest, resident_bytes

BUDGET = Budget(seconds=10)

WALK = 30
"""Tokens of a request whose schema has no instance."""

PATIENCE = 150.0
"""Seconds without any answer after which the process has hung."""

PLAIN_SECONDS = 30.0
"""Seconds that XGrammar has for one comparison."""


@dataclass
class Answer:
    """The answer to one request: the tokens, and the digest of the masks before them.

    `expected` is whether the error, if any, is one that the project raises on purpose.
    """

    number: int
    error: str = ""
    expected: bool = True
    ids: list[int] = field(default_factory=list)
    digest: str = ""


@dataclass
class Traffic:
    """The requests of one run, and how they are served; `malformed` and `hostile` are shares of the requests,
    and every so many requests masks are compared. The serving process loads the vocabulary of this name."""

    files: Sequence[SchemaFile]
    count: int
    seed: int = 0
    malformed: float = 0.01
    hostile: float = 0.01
    compared_every: int = 100
    size: hostile_schemas.Size = "large"
    vocabulary: str = ""
    threads: int = 8
    cache_bytes: int = 200 * 2**20
    cache_dir: str | None = None

    @cached_property
    def _ranked(self) -> tuple[list[SchemaFile], list[float]]:
        """All files, with the weights of Zipf's law, each added to those before."""
        ranked = random.Random(self.seed).sample(self.files, len(self.files))
        return ranked, list(accumulate(1 / (rank + 1) for rank in range(len(ranked))))

    def request(self, number: int) -> tuple[str, SchemaFile]:
        """The kind of a request ("schema", "malformed", "hostile"), and its schema."""
        rng = random.Random(f"{self.seed} {number}")
        drawn = rng.random()
        if drawn < self.malformed:
            place = rng.randrange(len(hostile_schemas.MALFORMED))
            schema = hostile_schemas.MALFORMED[place]
            return "malformed", SchemaFile(f"malformed {place}", schema, [], [])
        if drawn < self.malformed + self.hostile:
            make, small, large = rng.choice(hostile_schemas.KINDS)
            return "hostile", SchemaFile(*make(*(small if self.size == "small" else large)), [], [])
        files, weights = self._ranked
        return "schema", rng.choices(files, cum_weights=weights)[0]


def tokens(file: SchemaFile, rng: random.Random, matcher: GrammarMatcher) -> Iterator[int]:
    """The tokens of an instance of a schema; without one, some that the matcher allows."""
    vocabulary = matcher.compiled_grammar.vocabulary
    if file.valid:
        text, seed = workloads.render_instance(rng.choice(file.valid)), rng.random()
        greedy = tokenize_greedy(vocabulary, text)
        yield from greedy if seed < 0.5 else tokenize_random(vocabulary, text, seed.hex())
        yield vocabulary.stop_token_ids[0]
        return
    walker = Walker(rng, vocabulary.tokens, vocabulary.stop_token_ids, 0.5)
    for _ in range(WALK):
        allowed = flags_of(matcher)
        if not allowed.any():
            return
        yield walker.draw_from(allowed)


def answer(traffic: Traffic, number: int, compiler: Any) -> Answer:
    """Serve one request in this thread: compile, then a mask before each token."""
    found, compiled, digest = Answer(number), None, blake2b(digest_size=16)
    try:
        _, file = traffic.request(number)
        compiled = compiler.compile_json_schema(file.schema)
        matcher = GrammarMatcher(compiled)
        for token in tokens(file, random.Random(f"tokens {traffic.seed} {number}"), matcher):
            digest.update(flags_of(matcher))
            found.ids.append(token)
            if not matcher.accept_token(token) or matcher.is_terminated():
                break
        found.digest = digest.hexdigest()
    except Exception as error:  # noqa: BLE001 - a soak goes on and reports it
        found.error = f"{type(error).__name__}: {error}"[:300]
        found.expected = compiled is None and isinstance(error, HybridError)
    return found


@dataclass
class Served:
    """The report of the serving process, up to its end even if it crashed.

    Attributes:
        answers: to the requests that ended.
        resident: bytes after each of them.
        failure: why the run did not finish; empty if it did.
        cache_most: the largest size of the memory cache by its own account; `cache_bytes`, its bound.
    """

    answers: list[Answer] = field(default_factory=list)
    resident: list[int] = field(default_factory=list)
    failure: str = ""
    cache_most: int = 0

    @property
    def slope(self) -> float | None:
        """Resident bytes per further request, by least squares over the second half; None for too few."""
        late = self.resident[len(self.resident) // 2 :]
        return float(np.polyfit(range(len(late)), late, 1)[0]) if len(late) > 2 else None


def serve(traffic: Traffic, told: str) -> None:
    """Serve all requests in this process; append the number of each, later its answer, the size of the cache
    and the resident memory to a file, as lines of JSON."""
    faulthandler.enable()
    vocabulary = workloads.load_vocabulary(traffic.vocabulary)
    cache: dict[str, Any] = {"cache_limit_bytes": traffic.cache_bytes, "cache_dir": traffic.cache_dir}
    compiler = GrammarCompiler(vocabulary, budget=BUDGET, **cache)
    lock = threading.Lock()
    with open(told, "a", encoding="utf-8") as lines:

        def tell(line: Any) -> None:
            with lock:
                print(json.dumps(line), file=lines, flush=True)

        def work(number: int) -> None:
            tell(number)
            found = answer(traffic, number, compiler)
            tell([asdict(found), compiler.get_cache_size_bytes(), resident_bytes()])

        with ThreadPoolExecutor(traffic.threads) as pool:
            list(pool.map(work, range(traffic.count)))


def watch(traffic: Traffic, patience: float, work: Any = serve) -> Served:
    """Start a serving process, and end it if nothing is told for this number of seconds."""
    context: Any = multiprocessing.get_context("fork")
    served, under_way = Served(), set[int]()
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "told"
        told.touch()
        process = context.Process(target=work, args=(traffic, str(told)))
        process.start()
        while process.is_alive():
            process.join(0.2)
            if time.time() - told.stat().st_mtime > patience:
                process.kill()
        for line in told.read_text(encoding="utf-8").splitlines():
            try:
                given = json.loads(line)
            except ValueError:
                break  # the last line of a killed process
            if isinstance(given, int):
                under_way.add(given)
                continue
            one, cache_bytes, resident = given
            under_way.discard(one["number"])
            served.answers.append(Answer(**one))
            served.resident.append(resident)
            served.cache_most = max(served.cache_most, cache_bytes)
    if process.exitcode:
        served.failure = f"the process ended with {process.exitcode}; under way were requests {under_way}"
    return served


@dataclass
class Compared:
    """Masks of some requests, compared with plain XGrammar's."""

    masks: Comparison = field(default_factory=Comparison)
    differences: list[str] = field(default_factory=list)
    not_compared: list[str] = field(default_factory=list)


def compare(traffic: Traffic, answers: Sequence[Answer], vocabulary: Any, seconds: float) -> Compared:
    """Compare masks of the traffic with plain XGrammar's, those of each request in a forked process."""
    found, compiler = Compared(), GrammarCompiler(vocabulary, budget=BUDGET)
    for one in answers:
        if one.error or one.number % traffic.compared_every:
            continue
        _, file = traffic.request(one.number)
        ours = compiler.compile_json_schema(file.schema)
        if mask_digest(ours, one.ids) != one.digest:
            found.differences.append(f"request {one.number}: its masks differ from those of a new compile")
        met = in_a_fork(partial(_beside_plain, file.schema, ours, one.ids), seconds)
        if isinstance(met, Comparison):
            found.masks.add(met)
            found.differences += [f"{file.name}: {line}" for line in met.differences]
        else:
            found.not_compared.append(f"{file.name}: {met or 'not in time'}")
    return found


def _beside_plain(schema: Any, ours: CompiledGrammar, ids: list[int]) -> Comparison | str:
    """Compare a new compile with plain XGrammar; or say why not."""
    try:
        grammar = xgrammar.Grammar.from_json_schema(hostile_schemas.as_text(schema))
        plain = workloads.plain_compiler(ours.vocabulary, 1).compile_grammar(grammar)
    except Exception as error:  # noqa: BLE001 - whatever it is, there is nothing to compare with
        return f"{type(error).__name__}: {str(error)[:200]}"
    return compare_along(ours, plain, ids)


def command(
    vocabulary: options.VocabularyOption,
    schemas: options.SchemasOption,
    limit: options.LimitOption = None,
    seed: options.SeedOption = 0,
    requests: Annotated[int, typer.Option(min=1, help="Requests in all.")] = 10_000,
    json_file: options.OptionalRecordOption = None,
) -> None:
    """A soak of mixed traffic: errors, memory over the run, masks of a sample compared."""
    arguments = dict(locals())
    files = workloads.load_schema_files(schemas, limit, seed)
    traffic = Traffic(files, requests, seed, vocabulary=vocabulary)
    served = watch(traffic, PATIENCE)
    found = compare(traffic, served.answers, workloads.load_vocabulary(vocabulary), PLAIN_SECONDS)
    errors = Counter(
        f"{traffic.request(one.number)[0]}, {one.error.split(':')[0] or 'none'}" for one in served.answers
    )
    wrong = [f"DIFFERENCE {line}" for line in found.differences]
    wrong += [f"CRASH request {one.number}: {one.error}" for one in served.answers if not one.expected]
    wrong += [f"FAILED {served.failure}"] if served.failure else []
    counts = {
        "requests": len(served.answers), "masks": found.masks.masks,
        "contradictions": found.masks.contradiction_count,
        "not_compared": len(found.not_compared), "differences": len(found.differences),
        "resident_bytes": max(served.resident, default=0), "growth_bytes_a_request": served.slope,
        "cache_bytes": served.cache_most, "errors": dict(errors),
    }  # fmt: skip
    print(*(f"{name}: {value}" for name, value in counts.items()), *wrong, sep="\n")
    publish(report.make_console(), json_file, "traffic", arguments, {**counts, "wrong": wrong}, not wrong)


if __name__ == "__main__":
    typer.run(command)
