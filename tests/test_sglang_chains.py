"""Chains from grammars in SGLang's NGRAM speculation: with a stand-in, and with SGLang's own worker."""

import json
import sys
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch

from adapters.engines.continuations import Continuations
from hybrid.testing.mask_comparison import bits_of
from tests.engines import SIZE, bits
from tests.sglang_backends import installed, maker
from tests.sglang_stand_in import SPECULATION, request_of

WORKER = "sglang.srt.speculative.ngram_worker"

SOURCE = """
import numpy as np


class NGRAMWorker:
    def __init__(self, width, corpus, enable_overlap=False):
        self.draft_token_num, self.ngram_corpus, self.enable_overlap = width, corpus, enable_overlap

    def _prepare_draft_tokens(self, batch):
        ids = [request.output_ids[-1] for request in batch.reqs]
        drafts, mask = self.ngram_corpus.batch_get(ids, self.draft_token_num)
        return drafts, mask
"""


class Corpus:
    """Stand-in for SGLang's corpus: each request gets a tree of one draft, the token 7, and padding."""

    def batch_get(self, last, width, *_):
        last = [one[-1] if isinstance(one, list) else one for one in last]
        tokens = np.zeros((len(last), width), np.int64)
        tokens[:, 0], tokens[:, 1] = last, 7
        mask = np.stack([np.eye(width, dtype=bool)] * len(last))
        mask[:, :, 0] = True
        return tokens.reshape(-1), mask.reshape(-1)


def parents_of(mask) -> list[int]:
    """Return the node above each node, as SGLang reads it from a mask."""
    width = len(mask)
    return [max((j for j in range(i) if mask[i, j]), default=-1) for i in range(width)]


@pytest.fixture
def make(monkeypatch):
    """Return a function that makes a backend and the worker's module, with drafts switched on."""
    monkeypatch.setenv("EQUIMASK_SGLANG_DRAFTS", "1")
    with installed(monkeypatch) as put:

        def made(source=SOURCE, algorithm="NGRAM", **options):
            def put_with_worker(**serving):
                found = put(**serving)
                sys.modules[WORKER] = ModuleType(WORKER)
                exec(source, vars(sys.modules[WORKER]))
                return found

            return maker(put_with_worker)(speculates=algorithm, **options), sys.modules[WORKER]

        yield made


def batch_of(grammars, ids, needs_sync=True):
    requests = [
        SimpleNamespace(grammar=grammar, output_ids=list(read), rid=str(row))
        for row, (grammar, read) in enumerate(zip(grammars, ids, strict=True))
    ]
    return SimpleNamespace(reqs=requests, has_grammar=any(grammars), grammar_needs_sync=lambda: needs_sync)


def test_rows_of_requests_with_grammars_become_chains(make):
    backend, worker = make()
    forced, free = (request_of(backend, "ebnf", f"root ::= {text}") for text in ('"xabcd" [0-9]', "[a-z]*"))
    for grammar in (forced, free):
        grammar.accept_token(ord("x"))
    made = worker.NGRAMWorker(6, Corpus())
    drafts, mask = made._prepare_draft_tokens(batch_of([forced, None, free], [[120], [5], [120]]))
    tokens, ancestors = drafts.reshape(3, 6), mask.reshape(3, 6, 6)
    assert tokens[0].tolist() == [120, *b"abcd", 0]
    assert parents_of(ancestors[0]) == [-1, 0, 1, 2, 3, 0]
    for row in (1, 2):  # without a grammar, and without a likely token
        assert tokens[row].tolist()[1] == 7 and parents_of(ancestors[row]) == [-1, 0, 0, 0, 0, 0]
    rows = torch.full((6, SIZE // 32), -1, dtype=torch.int32)
    links = [torch.tensor([1, 2, 3, 4, -1, -1]), torch.tensor([-1, 5, -1, -1, -1, -1])]
    sys.modules[SPECULATION].traverse_tree(*links, torch.from_numpy(tokens[0]), forced, rows, SIZE)
    assert [bits(row) for row in rows[:4]] == [[one] for one in b"abcd"]
    assert bits(rows[4]) == [*b"0123456789"]
    forced.accept_token(ord("a"))  # the grammar has not moved


def test_what_others_wrote_is_learned_for_their_grammar(make):
    backend, worker = make()
    made = worker.NGRAMWorker(4, Corpus())

    def drafted(text, read=1):
        """Return the drafts after each token of a request that writes "hello"."""
        grammar, found = request_of(backend, "ebnf", text), []
        for at, token in enumerate(b"hello"[:read]):
            grammar.accept_token(token)
            found.append(made._prepare_draft_tokens(batch_of([grammar], [b"hello"[: at + 1]]))[0].tolist())
        return found

    for _ in range(8):
        drafted("root ::= [a-z]{5}", 5)
    assert drafted("root ::= [a-z]{5}") == [[*b"hell"]]
    assert drafted("root ::= [a-z]{5,6}")[0][:2] == [ord("h"), 7]


def test_a_grammar_that_is_behind_or_has_failed_gets_no_chain(make, monkeypatch, caplog):
    backend, worker = make()
    grammar = request_of(backend, "ebnf", 'root ::= "xabcd" [0-9]')
    grammar.accept_token(ord("x"))
    made, overlapping = worker.NGRAMWorker(6, Corpus()), worker.NGRAMWorker(6, Corpus(), enable_overlap=True)
    for last in (97, 121):
        assert made._prepare_draft_tokens(batch_of([grammar], [[120, last]]))[0][1] == 7
    unread = request_of(backend, "ebnf", 'root ::= "xabcd"')
    assert made._prepare_draft_tokens(batch_of([unread], [[120]]))[0][1] == 7
    assert not caplog.records
    assert overlapping._prepare_draft_tokens(batch_of([grammar], [[120]], needs_sync=False))[0][1] == 7
    assert overlapping._prepare_draft_tokens(batch_of([grammar], [[120]]))[0][1] == ord("a")
    with monkeypatch.context() as context:
        context.setattr(Continuations, "continue_draft", lambda *_: 1 / 0)
        assert made._prepare_draft_tokens(batch_of([grammar], [[120]]))[0][1] == 7
    assert "SGLang's own drafts are used" in caplog.text
    grammar.failed_at = 1
    assert made._prepare_draft_tokens(batch_of([grammar], [[120]]))[0][1] == 7


def test_to_make_two_backends_binds_once(make):
    _, worker = make()
    from adapters.sglang.chains import draft_chains

    bound = worker.NGRAMWorker._prepare_draft_tokens
    draft_chains(SimpleNamespace(tp_size=1, pp_size=1, speculative_algorithm="ngram"))
    assert worker.NGRAMWorker._prepare_draft_tokens is bound


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"algorithm": None}, "algorithm is NONE, and the number of ranks is 1"),
        ({"algorithm": "EAGLE"}, "algorithm is EAGLE, and the number of ranks is 1"),
        ({"tp_size": 2}, "algorithm is NGRAM, and the number of ranks is 2"),
        ({"source": SOURCE.replace("NGRAMWorker", "Worker")}, "has no NGRAMWorker._prepare_draft_tokens"),
        ({"source": SOURCE.replace("batch_get", "get")}, "is not one that equimask knows"),
        ({"source": SOURCE.replace("batch):", "batch, other=1):")}, "is not one that equimask knows"),
    ],
)
def test_a_server_without_a_place_for_them_does_not_start(make, options, why):
    with pytest.raises(RuntimeError, match=why):
        make(**options)


def test_nothing_is_bound_unless_asked_for(make, monkeypatch):
    monkeypatch.setenv("EQUIMASK_SGLANG_DRAFTS", "0")
    _, worker = make()
    assert not hasattr(worker.NGRAMWorker._prepare_draft_tokens, "by_sglang")


# --- SGLang's own worker ---------------------------------------------------------------------------------


@pytest.mark.skipif(find_spec("sglang") is None, reason="SGLang is not installed")
def test_sglangs_own_worker(monkeypatch):
    pytest.importorskip("sglang.srt.constrained.grammar_manager")
    import adapters.sglang
    from adapters.sglang.chains import draft_chains
    from tests import test_sglang_managers as managers
    from tests.sglang_scheduler import Scheduler, from_source

    methods = "_prepare_draft_tokens", "_efficient_concat_last_n"
    found = from_source("ngram_worker", "_derive_tree_links", "NGRAMWorker", methods=methods)
    ngram_worker = SimpleNamespace(**found)
    monkeypatch.setitem(sys.modules, WORKER, ngram_worker)

    kind = ngram_worker.NGRAMWorker
    monkeypatch.setattr(kind, "_prepare_draft_tokens", kind._prepare_draft_tokens)
    adapters.sglang.register()
    draft_chains(SimpleNamespace(tp_size=1, pp_size=1, speculative_algorithm="NGRAM"))
    worker = object.__new__(kind)
    worker.draft_token_num, worker.max_trie_depth, worker.enable_overlap = 8, 18, True
    worker.ngram_corpus = SimpleNamespace(
        synchronize=lambda: None, batch_get=lambda ids, last, lengths: Corpus().batch_get(last, 8)
    )
    scheduler = Scheduler("equimask", managers.TOKENIZER, managers.SIZE, {managers.STOP})
    schema = json.dumps({"type": "object", "properties": {"kind": {"const": "forced"}}, "required": ["kind"]})
    request = scheduler.request("json_schema", schema)
    request.origin_input_ids_unpadded, request.output_ids = [1, 2], []
    wanted = [*managers.TOKENIZER.encode('{"kind": "forced"}', add_special_tokens=False), managers.STOP]
    request.grammar.accept_token(wanted[0])
    request.output_ids.append(wanted[0])
    passes = 1
    while len(request.output_ids) < len(wanted):
        batch = SimpleNamespace(reqs=[request], has_grammar=True, grammar_needs_sync=lambda: True)
        drafts, mask = worker._prepare_draft_tokens(batch)
        child, sibling = ngram_worker._derive_tree_links(mask, 1, 8)
        tree = (child[0].tolist(), sibling[0].tolist(), drafts.tolist())
        rows = scheduler.tree_rows([request], [tree])
        node = 0
        while True:  # walk down the tree as the verification does
            token = wanted[len(request.output_ids)]
            assert bits_of(rows[node], managers.SIZE)[token]
            request.grammar.accept_token(token)
            request.output_ids.append(token)
            below = int(child[0, node])
            while below >= 0 and int(drafts[below]) != token:
                below = int(sibling[0, below])
            if below < 0 or len(request.output_ids) == len(wanted):
                break
            node = below
        passes += 1
    assert request.output_ids == wanted and request.grammar.is_terminated()
    assert 2 * passes < len(wanted)
