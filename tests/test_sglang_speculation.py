"""Draft trees and accepted drafts through the modules of SGLang's speculation; only if these are importable.

What: the masks that its workers build over a tree, and what its scheduler accepts of a verified run.
When: in an SGLang environment that includes torchvision.
Limits: no worker runs here. `tests.test_sglang_managers` has trees of more kinds of requests.
"""

import random
from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("sglang.srt.constrained.grammar_manager")
pytest.importorskip("sglang.srt.speculative.spec_utils", exc_type=ImportError)
pytest.importorskip("sglang.srt.managers.scheduler_components.batch_result_processor", exc_type=ImportError)

from sglang.srt.managers.scheduler_components.batch_result_processor import SchedulerBatchResultProcessor
from sglang.srt.speculative import spec_utils

from adapters.sglang.drafts import NAME, read_at_once
from tests.engine_requests import draft_tree, guesses
from tests.test_sglang_managers import KINDS, SIZE, STOP, registered, same, two  # noqa: F401 - a fixture

ACCEPT = SchedulerBatchResultProcessor._accept_grammar_tokens


@pytest.fixture
def by_sglang(monkeypatch):
    """Replace SGLang's function as a scheduler does, until the end of the test; return the original."""
    original = getattr(spec_utils, NAME)
    monkeypatch.setattr(spec_utils, NAME, original)
    read_at_once()
    return original


def masks_of(requests, trees):
    """Return the mask of a batch of trees, as SGLang's workers ask for it."""
    advanced = []
    mask = spec_utils.build_grammar_vocab_mask(
        reqs=requests, tree=spec_utils.GrammarTree.from_host(*map(torch.tensor, zip(*trees, strict=True))),
        sampling_info=SimpleNamespace(vocab_size=SIZE, grammar_mask="of the prefill"), device="cpu",
        barrier=lambda: advanced.append(1),
    )  # fmt: skip
    assert advanced == [1]
    return mask


@pytest.mark.parametrize("parser", [None, "glm45"])
def test_trees_and_accepted_runs(by_sglang, parser):
    assert getattr(spec_utils, NAME).by_sglang is by_sglang
    schedulers = two(reasoning_parser=parser)
    names = ("json", "regex", "ebnf", "tag", "legacy")
    batches = [[s.request(*KINDS[name]) for name in names] for s in schedulers]
    randomness = random.Random(3)
    for _ in range(12):
        trees = [draft_tree(request.grammar, SIZE, 8, randomness) for request in batches[1]]
        masks = [masks_of(batch, trees) for batch in batches]
        same(*(mask.vocab_mask for mask in masks))
        for mine, stock in zip(*batches, strict=True):
            inner = mine.grammar.grammar if parser else mine.grammar
            run = [*guesses(inner.matcher, randomness, 3, SIZE), randomness.choice([STOP, 7, 300])]
            kept = [ACCEPT(None, one, run) for one in (mine, stock)]
            assert kept[0] == kept[1]
            aborted = [vars(one).pop("to_finish", None) is not None for one in (mine, stock)]
            assert aborted[0] == aborted[1]
            assert mine.grammar.is_terminated() == stock.grammar.is_terminated()
