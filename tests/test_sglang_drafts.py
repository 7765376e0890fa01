"""Trees of drafts of SGLang's, over a stand-in for it: the masks of a whole tree in one call."""

import random
import sys

import pytest
import torch

from tests.sglang_backends import EBNF, SIZE, STOP, TEXTS, bits, installed, maker, stock
from tests.sglang_stand_in import SPECULATION, XGrammarGrammar, request_of, traverse_tree


@pytest.fixture
def sglang(monkeypatch):
    with installed(monkeypatch) as put:
        yield put


@pytest.fixture
def make(sglang):
    return maker(sglang)


def fail(*_, **__):
    raise MemoryError("no room")


def tree_of(randomness, words: list[bytes], n: int) -> list[torch.Tensor]:
    """A tree whose branches begin as words do, with some tokens that fit nowhere."""
    child, sibling, tokens = [-1] * n, [-1] * n, [0] * n
    depths, last = [0] * n, [-1] * n
    word = [randomness.choice(words) for _ in range(n)]
    for node in range(1, n):
        parent = randomness.randrange(max(0, node - 4), node)
        word[node] = word[parent] if randomness.random() < 0.8 else word[node]
        depths[node] = depths[parent] + 1
        fits = depths[node] <= len(word[node]) and randomness.random() < 0.9
        tokens[node] = word[node][depths[node] - 1] if fits else randomness.choice([STOP, SIZE - 1, SIZE + 9])
        if last[parent] == -1:
            child[parent] = node
        else:
            sibling[last[parent]] = node
        last[parent] = node
    return [torch.tensor(part) for part in (child, sibling, tokens)]


def tree_rows(traverse, tree, grammar) -> torch.Tensor:
    rows = torch.full((len(tree[0]), SIZE // 32), -1, dtype=torch.int32)
    traverse(*tree, grammar, rows, vocab_size=SIZE)
    return rows


@pytest.mark.parametrize("parser", [None, "bang"])
def test_trees_of_drafts_are_read_at_once(make, monkeypatch, parser):
    backend = make(speculates="EAGLE", reasoning_parser=parser)
    traverse = sys.modules[SPECULATION].traverse_tree  # type: ignore[attr-defined]
    assert traverse.by_sglang is traverse_tree
    grammar = request_of(backend, "ebnf", EBNF)
    alone = []

    def counting(self, vocab_mask, idx):
        alone.append(idx)
        XGrammarGrammar.fill_vocab_mask(self, vocab_mask, idx)

    monkeypatch.setattr(type(getattr(grammar, "grammar", grammar)), "fill_vocab_mask", counting)
    randomness = random.Random(1)
    for _ in range(60):
        tree = tree_of(randomness, [b"aa1bb", b"a12b", b"7"], 20)
        rows = tree_rows(traverse, tree, grammar)
        assert not alone
        assert torch.equal(rows, tree_rows(traverse_tree, tree, grammar)) and alone
        alone.clear()
    grammar.accept_token(ord("7"))
    tree = [torch.tensor(part) for part in ([1, -1, -1], [-1, 2, -1], [0, STOP, ord("8")])]
    rows = tree_rows(traverse, tree, grammar)
    assert [len(bits(row)) for row in rows] == [11, SIZE, 11]  # nothing is written where the grammar ends


def test_a_tree_comes_to_where_nothing_is_allowed(make):
    make(speculates="EAGLE")
    backend = make(texts=[b"" if text == b"c" else text for text in TEXTS], speculates="EAGLE")
    grammar = request_of(backend, "ebnf", 'root ::= "ac" | "ab"* "z" | "q" "c"')
    tree = [
        torch.tensor(part) for part in ([1, -1, -1, -1], [-1, 2, 3, -1], [0, ord("q"), ord("x"), ord("a")])
    ]
    traverse = sys.modules[SPECULATION].traverse_tree  # type: ignore[attr-defined]
    rows = tree_rows(traverse, tree, grammar)
    assert torch.equal(rows, tree_rows(traverse_tree, tree, grammar))
    assert [len(bits(row)) for row in rows[1:]] == [0, SIZE, 1]


def test_sglang_walks_trees_of_other_grammars(make, monkeypatch):
    backend = make(speculates="EAGLE", reasoning_parser="bang")
    traverse = sys.modules[SPECULATION].traverse_tree  # type: ignore[attr-defined]
    tree = [torch.tensor(part) for part in ([1, -1], [-1, -1], [0, ord("1")])]
    thinking = request_of(backend, "ebnf", EBNF, True)
    own, ended, broken = (
        request_of(stock(), "regex", "1"),
        *(request_of(backend, "regex", "1") for _ in "12"),
    )
    for token in (ord("1"), STOP):
        ended.accept_token(token)
    monkeypatch.setattr(type(broken.grammar.matcher), "traverse_draft_tree", fail)
    for grammar, wanted in (
        (thinking, [SIZE, SIZE]),
        (own, [1, 1]),
        (ended, [SIZE, SIZE]),
        (broken, [1, 1]),
    ):
        assert [len(bits(row)) for row in tree_rows(traverse, tree, grammar)] == wanted


def test_servers_that_do_not_speculate_or_walk_otherwise_are_left_alone(make, monkeypatch, sglang):
    make()
    assert sys.modules[SPECULATION].traverse_tree is traverse_tree  # type: ignore[attr-defined]
    from adapters.sglang.drafts import read_at_once

    module = sys.modules[SPECULATION]
    for other in (lambda tree, grammar: None, None):
        monkeypatch.setattr(module, "traverse_tree", other)
        read_at_once()
        assert module.traverse_tree is other
    monkeypatch.setattr(module, "traverse_tree", traverse_tree)
    for _ in range(2):
        read_at_once()
        assert module.traverse_tree.by_sglang is traverse_tree
    sys.modules[SPECULATION] = None
    read_at_once()
