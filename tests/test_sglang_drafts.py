"""SGLang's trees of drafts, with a stand-in for SGLang: one call makes the masks of all trees of a batch."""

import random
import sys
from types import SimpleNamespace

import pytest
import torch

from tests.engine_requests import draft_tree, fail
from tests.engines import EBNF, SIZE, STOP, TEXTS, bits
from tests.sglang_backends import fixture_make, fixture_sglang, stock  # noqa: F401
from tests.sglang_stand_in import SPECULATION, XGrammarGrammar, generate_token_bitmask, request_of


def rows_of_trees(generate, trees, grammars) -> torch.Tensor:
    """Return the rows that `generate`, SGLang's function or ours, makes for a batch."""
    requests = [SimpleNamespace(grammar=grammar) for grammar in grammars]
    parts = map(torch.tensor, zip(*trees, strict=True))
    rows, last = generate(requests, *parts, SIZE)
    assert last is [grammar for grammar in grammars if grammar is not None][-1]
    return rows


def ours():
    return sys.modules[SPECULATION].generate_token_bitmask  # type: ignore[attr-defined]


@pytest.mark.parametrize("parser", [None, "bang"])
def test_trees_of_drafts_are_read_at_once(make, monkeypatch, parser):
    backend = make(speculates="EAGLE", reasoning_parser=parser)
    assert ours().by_sglang is generate_token_bitmask
    grammars = [request_of(backend, "ebnf", EBNF), None, request_of(backend, "regex", "a1?[a-z]{1,3}"), None]
    grammars[3] = request_of(backend, "ebnf", EBNF)
    alone = []

    def counting(self, vocab_mask, idx):
        alone.append(idx)
        XGrammarGrammar.fill_vocab_mask(self, vocab_mask, idx)

    monkeypatch.setattr(type(getattr(grammars[0], "grammar", grammars[0])), "fill_vocab_mask", counting)
    randomness = random.Random(1)
    for round_ in range(30):
        trees = [draft_tree(grammar or grammars[0], SIZE, 20, randomness, beyond=9) for grammar in grammars]
        alone.clear()
        rows = rows_of_trees(ours(), trees, grammars)
        assert not alone
        assert torch.equal(rows, rows_of_trees(generate_token_bitmask, trees, grammars)) and alone
        if round_ % 10 == 9:
            for grammar in (grammars[0], grammars[2]):
                grammar.accept_token(ord("a"))
    grammars[3].accept_token(ord("7"))
    tree = [1, -1, -1], [-1, 2, -1], [0, STOP, ord("8")]
    rows = rows_of_trees(ours(), [tree], grammars[3:])
    assert [len(bits(row)) for row in rows] == [11, SIZE, 11]  # no row is written after the grammar's end


def test_a_tree_comes_to_where_nothing_is_allowed(make):
    make(speculates="EAGLE")
    backend = make(texts=[b"" if text == b"c" else text for text in TEXTS], speculates="EAGLE")
    grammar = request_of(backend, "ebnf", 'root ::= "ac" | "ab"* "z" | "q" "c"')
    tree = [1, -1, -1, -1], [-1, 2, 3, -1], [0, ord("q"), ord("x"), ord("a")]
    rows = rows_of_trees(ours(), [tree], [grammar])
    assert torch.equal(rows, rows_of_trees(generate_token_bitmask, [tree], [grammar]))
    assert [len(bits(row)) for row in rows[1:]] == [1, SIZE, 1]
    assert bits(rows[1]) == [STOP], "which the grammar rejects: SGLang could not sample from an empty row"


def test_sglang_walks_trees_of_other_grammars(make, monkeypatch):
    backend = make(speculates="EAGLE", reasoning_parser="bang")
    tree = [1, -1], [-1, -1], [0, ord("1")]
    thinking = request_of(backend, "ebnf", EBNF, True)
    own, ended, good = (request_of(one, "regex", "1") for one in (stock(), backend, backend))
    for token in (ord("1"), STOP):
        ended.accept_token(token)
    wanted = {id(thinking): [SIZE, SIZE], id(own): [1, 1], id(ended): [SIZE, SIZE], id(good): [1, 1]}
    for together in ([thinking], [own], [ended], [own, thinking, good, ended]):
        rows = rows_of_trees(ours(), [tree] * len(together), together)
        assert [len(bits(row)) for row in rows] == [n for one in together for n in wanted[id(one)]]
    monkeypatch.setattr("adapters.sglang.drafts.fill_trees", fail)
    rows = rows_of_trees(ours(), [tree] * 2, [good, thinking])
    assert [len(bits(row)) for row in rows] == [1, 1, SIZE, SIZE]


@pytest.mark.parametrize("parser", [None, "bang"])
@pytest.mark.parametrize("name", ["fill_next_token_bitmask", "accept_token"])
def test_errors_in_drafts_do_not_stop_the_walk(make, monkeypatch, caplog, name, parser):
    backend = make(speculates="EAGLE", reasoning_parser=parser)
    broken, good = (request_of(backend, "regex", "a?") for _ in range(2))
    inner = broken.grammar if parser else broken
    monkeypatch.setattr("adapters.sglang.drafts.fill_trees", fail)
    tree = [1, 3, -1, -1], [-1, 2, -1, -1], [0, ord("a"), STOP, STOP]
    before, kind = rows_of_trees(ours(), [tree], [good]), type(inner.matcher)
    inner.matcher.__class__ = type("Broken", (kind,), {name: fail})
    rows = rows_of_trees(ours(), [tree] * 2, [broken, good])
    assert "ended, unless this was in drafts" in caplog.text
    assert torch.equal(rows[4:], before)
    if name == "accept_token":  # no draft can be read, but nothing else is wrong
        assert torch.equal(rows[0], before[0]) and bits(rows[1]) == bits(rows[3]) == [STOP]
        inner.matcher.__class__ = kind
        assert torch.equal(rows_of_trees(ours(), [tree], [broken]), before)
        broken.accept_token(ord("a"))
        assert not broken.is_terminated()
    else:
        assert bits(rows[0]) == bits(rows[2]) == [STOP]
    assert len(inner.accepted_tokens) == inner.matcher._n_steps
    with pytest.raises(ValueError, match="Token 98 is"):
        broken.accept_token(ord("b"))


def test_what_is_no_tree_is_left_to_sglang(make):
    backend = make(speculates="EAGLE")
    grammar = request_of(backend, "ebnf", EBNF)
    tree = [1, -1], [-1, 5], [0, ord("a")]
    with pytest.raises(IndexError):
        rows_of_trees(ours(), [tree], [grammar])


def test_servers_that_do_not_speculate_or_walk_otherwise_are_left_alone(make, monkeypatch, sglang):
    make()
    assert ours() is generate_token_bitmask
    from adapters.sglang.drafts import read_at_once

    module = sys.modules[SPECULATION]
    for name in ("traverse_tree", "generate_token_bitmask"):
        for other in (lambda tree, grammar: None, None):
            with monkeypatch.context() as patch:
                patch.setattr(module, name, other)
                read_at_once()
                assert not hasattr(ours(), "by_sglang")
    monkeypatch.setattr(module, "generate_token_bitmask", generate_token_bitmask)
    for _ in range(2):
        read_at_once()
        assert ours().by_sglang is generate_token_bitmask
    sys.modules[SPECULATION] = None
    read_at_once()
