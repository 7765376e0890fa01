"""The process in which one engine, or the judge, works: it reads a line of JSON and writes a line.

What: `main` answers questions until there are no more.
When: started by `bench.json_schema.runner`, which kills it if it takes too long.
Limits: everything that an engine prints goes to the standard error, which is ignored.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import IO, Any

from bench import workloads
from bench.json_schema import measurement
from bench.json_schema.judge import Judge
from bench.workloads import SchemaFile

JUDGE = "jsonschema"
"""The name of the judge, which is used like an engine."""

BYTES = "bytes"
"""The vocabulary of all single bytes: verdicts are the same, and compiling is fast."""

Answers = Callable[[SchemaFile], Iterator[Mapping[str, Any]]]


def judging() -> Answers:
    """Return a function that answers a question with the verdicts on all instances."""

    def answers(file: SchemaFile) -> Iterator[Mapping[str, Any]]:
        try:
            judge = Judge(file.schema)
            found = [judge.verdict(instance) for instance in file.instances]
        except Exception as error:  # noqa: BLE001 - a schema that jsonschema cannot read: labels stand
            reason = [f"{type(error).__name__}: {error}"[:200]]
            yield {"verdicts": [None for _ in file.instances], "why": [reason for _ in file.instances]}
            return
        yield {"verdicts": [one.valid for one in found], "why": [list(one.why) for one in found]}

    return answers


def every_byte() -> Any:
    """Return a vocabulary with a token for each byte, and one that ends the text."""
    from equivalence.vocabulary import Vocabulary

    return Vocabulary.from_bytes([*(bytes([value]) for value in range(256)), b""], stop_token_ids=[256])


def engine(name: str, arguments: Mapping[str, Any]) -> Answers:
    """Return a function that answers a question with the result for a schema, twice: after compiling, and at
    the end."""
    from bench.json_schema.engines import make

    vocabulary = arguments["vocabulary"]
    tokens = every_byte() if vocabulary == BYTES else workloads.load_vocabulary(vocabulary)
    own = make(name, tokens, arguments["remotes"])
    own.start(workloads.THROW_AWAY_SCHEMA)

    def answers(file: SchemaFile) -> Iterator[Mapping[str, Any]]:
        if arguments["quick"]:
            found = measurement.check(own, file.schema, file.instances)
        else:
            own.start({**workloads.OTHER_SCHEMA, "title": file.name})
            found = measurement.measure(own, tokens, file.schema, file.instances)
        yield from map(asdict, found)

    return answers


def main(arguments: Mapping[str, Any], reading: IO[str], say: Callable[[Mapping[str, Any]], None]) -> None:
    """Answer until there are no more questions."""
    name = arguments["name"]
    try:
        answers = judging() if name == JUDGE else engine(name, arguments)
    except (ImportError, ValueError, RuntimeError) as error:
        say({"missing": f"{type(error).__name__}: {error}"})
        return
    say({"missing": ""})
    for line in reading:
        question = json.loads(line)
        file = SchemaFile(question["file"], question["schema"], question["instances"], [])
        for answer in answers(file):
            say({"answer": answer})
        say({"done": True})


def _run() -> None:
    """Run as a program. Answers go to the standard output, and everything that is printed to the standard
    error."""
    if sys.platform == "linux":
        # Otherwise, a worker that is busy when its parent is killed would continue for hours.
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(answer: Mapping[str, Any]) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    sys.setrecursionlimit(10_000)
    main(json.loads(sys.argv[1]), sys.stdin, say)


if __name__ == "__main__":
    _run()
