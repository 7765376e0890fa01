"""One of several ranks that serve a model: what it decides about a stream of requests, for comparison.

What: ``python -m tests.sglang_rank RANK RANKS FILE`` prints which requests found their grammar, which errors
they got, and what their masks are; the ranks meet through FILE.
When: in `tests/test_sglang_managers.py`, in several processes, some of which compile more slowly than others.
Limits: one machine.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import sys
import time
from datetime import timedelta

import torch

import adapters.sglang
from tests.byte_tokenizer import byte_tokenizer
from tests.sglang_scheduler import Request, Scheduler

SIZE = 288
TOKENIZER = byte_tokenizer("<|eos|>", [])


def texts() -> list[tuple[str, str]]:
    """Return requests that repeat; some are invalid, and some take long to compile."""
    randomness = random.Random(2)
    kinds = [("regex", f"{number}[a-c]{{1,{number + 1}}}") for number in range(12)]
    kinds += [("ebnf", "root ::= nowhere"), ("json_schema", '{"type": "integer"}'), ("json_schema", "{")]
    kinds += [("json_schema", json.dumps({"type": "string", "pattern": "^[a-z]{1,20000}$"}))]
    return [randomness.choice(kinds) for _ in range(120)]


def without_time(error: str) -> str:
    """Return XGrammar's message without its time stamp."""
    return re.sub(r"\[[\d:]+\]", "", error)


def main(rank: int, ranks: int, meeting: str) -> list[list[str]]:
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{meeting}", rank=rank, world_size=ranks, timeout=timedelta(seconds=60)
    )
    adapters.sglang.register()
    scheduler = Scheduler("equimask", TOKENIZER, SIZE, {256}, ranks, torch.distributed.group.WORLD)
    backend, randomness = scheduler.backend, random.Random(rank)
    dispatch = type(backend)._init_value_dispatch

    def slower(*arguments):
        time.sleep(randomness.random() * 0.02)
        return dispatch(backend, *arguments)

    backend._init_value_dispatch = slower
    journal = []
    waiting: list[Request] = []
    for number, (kind, text) in enumerate(texts()):
        request = Request(kind, text, False, (), None)
        is_hit = not scheduler.manager.process_req_with_grammar(request)
        journal.append([f"{number}", "found" if is_hit else "compiled", without_time(request.error)])
        waiting += [] if is_hit else [request]
        while waiting and (number % 7 == 0 or number == 119):  # new requests arrive while others wait
            for ready in scheduler.manager.get_ready_grammar_requests():
                waiting.remove(ready)
                mask = b"" if ready.error else scheduler.rows([ready]).numpy().tobytes()
                digest = hashlib.sha1(mask).hexdigest()
                journal.append([ready.grammar_key[1], digest, without_time(ready.error)])
    return journal


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])))
