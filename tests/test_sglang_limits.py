"""Requests with stop tokens and token limits, through SGLang's own grammar manager.

Limits: masks and batches are tested in `tests.test_sglang_managers`.
"""

import json
import random

import pytest

pytest.importorskip("sglang.srt.constrained.grammar_manager")

from tests.engine_requests import guesses
from tests.matchers import ids_of
from tests.sglang_scheduler import Scheduler
from tests.test_sglang_managers import END, KINDS, SIZE, STOP, TOKENIZER, UNTHINK, refused, registered  # noqa: F401 - a fixture


@pytest.mark.parametrize("parser", [None, "glm45"])
def test_stop_tokens_of_a_request_come_at_the_end_only(parser):
    ours = Scheduler("equimask", TOKENIZER, SIZE, {STOP}, reasoning_parser=parser)
    extra = TOKENIZER.encode("~")[0]
    stops = {STOP, END, extra}
    text = TOKENIZER.encode('{"name": "x"}', add_special_tokens=False)
    for number in range(2):  # first compiled, then found in the cache
        both = [ours.request(*KINDS["json"], stop_token_ids=asked) for asked in ({END, extra}, None)]
        for at, token in enumerate(text):
            masks = [{*ids_of(row, SIZE)} for row in ours.rows(both)]
            assert not stops & masks[0] and (extra in masks[1]) == (at in (10, 11)), (number, at)
            for one in both:
                one.grammar.accept_token(token)
        masks = [{*ids_of(row, SIZE)} for row in ours.rows(both)]
        assert stops <= masks[0] and stops & masks[1] == {STOP}
        both[0].grammar.accept_token(END)
        assert both[0].grammar.is_terminated()
        assert str(END) in refused(both[1].grammar, END)


@pytest.mark.parametrize(("parser", "thoughts"), [(None, 0), ("glm45", 0), ("glm45", 7)])
@pytest.mark.parametrize("n_drafts", [0, 4])
def test_texts_end_within_the_tokens_of_a_request(monkeypatch, parser, thoughts, n_drafts):
    monkeypatch.setenv("EQUIMASK_SGLANG_TOKEN_LIMITS", "1")
    ours = Scheduler("equimask", TOKENIZER, SIZE, {STOP}, reasoning_parser=parser)
    thinks = parser is not None
    for more in (1, 2, 6, 30):
        for seed in range(6):
            draw = random.Random(seed)
            most = len('{"name":""}') + more + (thoughts + 1 if thinks else 0)
            request = ours.request(*KINDS["json"], reasoning=thinks, max_new_tokens=most)
            read = [*[ord("a")] * thoughts, UNTHINK] if thinks else []
            for token in read:
                request.grammar.accept_token(token)
            while not request.grammar.is_terminated():
                inner = request.grammar.grammar if thinks else request.grammar
                # a chain of drafts that the grammar accepts, within the limit or not
                chain = [0, *guesses(inner.matcher, draw, n_drafts, SIZE)]
                links = [*range(1, len(chain)), -1], [-1] * len(chain), chain
                if n_drafts:
                    rows = ours.tree_rows([request], [links], by_sglang=seed % 2 == 1)
                else:
                    rows = ours.rows([request])
                for at, row in enumerate(rows):  # verified one by one
                    token = draw.choice(ids_of(row, SIZE))
                    request.grammar.accept_token(token)
                    read.append(token)
                    if at + 1 == len(chain) or token != chain[at + 1] or request.grammar.is_terminated():
                        break
                assert len(read) <= most
            assert read[-1] == STOP
            text = TOKENIZER.decode(read[thoughts + 1 if thinks else 0 : -1])
            assert set(json.loads(text, strict=False)) <= {"name", "tags"}
