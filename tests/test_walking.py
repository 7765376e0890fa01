"""Walked masks: walking the vocabulary, without any classes, allows exactly what the grammar allows.

What: masks of a walked classifier against the slow reference on random grammars; counters, whose counts walks
forget.
When: after any change of `hybrid.classifier.walker`, `vocabulary_walker`, `counter_abstraction` or
`mask_pieces`.
Limits: ``test_classifier.py`` tests what walks share with classes, and ``test_deferred_classes.py`` the
change to classes in the middle of a text.
"""

from __future__ import annotations

import random
from itertools import chain, pairwise, product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import xgrammar
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from equivalence import BudgetExceeded, UnsupportedGrammar, Vocabulary, compute_classes
from equivalence.network import build_network
from equivalence.parser.automaton import Automaton
from equivalence.walks.unit_reads import UnitReads
from equivalence.walks.walk_cache import WalkCache
from hybrid import GrammarCompiler, GrammarMatcher
from hybrid.classifier import Classifier
from hybrid.classifier.canonical_form import CanonicalForm
from hybrid.classifier.repeat_units import unit_reads, unit_table
from hybrid.classifier.vocabulary_walker import MOST_PIECES
from hybrid.classifier.walk_tables import walk_tables
from tests.classifiers import agree_with_the_reference, compiled_of, vocabulary_of
from tests.matchers import ids_of
from tests.random_grammars import GrammarCase, grammar_cases

pytestmark = pytest.mark.kernels

EXAMPLES = 40
LIMIT = 1 << 26


def walked_of(ebnf: str, vocabulary: Vocabulary) -> Classifier:
    grammar = xgrammar.Grammar.from_ebnf(ebnf)
    network = build_network(grammar, token_bytes=vocabulary.trie.longest, max_states=4_000)
    return Classifier(walk_tables(network, vocabulary), None, vocabulary, LIMIT)


def row_of(classifier: Classifier, configuration: int) -> list[int]:
    """Return the ids that the mask of a configuration allows."""
    session, vocabulary = classifier.session, classifier.vocabulary
    rows = session.rows_for(vocabulary.stop_token_ids)
    if not rows.knows(configuration):
        mask = session.store.class_mask(configuration)
        rows.make(configuration, mask, mask, session.store.masks)
    words = np.zeros((vocabulary.size + 31) // 32, np.uint32)
    rows.copy(configuration, words)
    return ids_of(words, vocabulary.size)


def walk(classifier: Classifier, ebnf: str, choose: Any, texts: int, steps: int) -> int:
    """Compare masks with the reference's along texts of chosen tokens; return how many."""

    def begin() -> Any:
        configuration = classifier.session.start

        def read(token: int) -> bool:
            nonlocal configuration
            configuration = classifier.step(classifier.session, configuration, token)
            return configuration > 0

        return lambda: row_of(classifier, configuration), read

    return agree_with_the_reference(begin, ebnf, classifier.vocabulary, choose, texts, steps)


@settings(max_examples=EXAMPLES, deadline=None)
@given(case=grammar_cases(), rng=st.randoms(use_true_random=False))
def test_walked_masks_are_those_of_the_reference(case: GrammarCase, rng: random.Random) -> None:
    vocabulary = vocabulary_of(case.vocabulary)
    try:
        classifier = walked_of(case.ebnf, vocabulary)
    except (UnsupportedGrammar, BudgetExceeded):
        reject()
    walk(classifier, case.ebnf, rng.choice, 3, 8)


def test_what_other_grammars_read_is_taken_for_what_it_is() -> None:
    """Each walk is looked up among the walks of two grammars, one of which is its own."""
    counts = [0, 0]  # walks kept for the first of two equal grammars, and found for the second

    @settings(max_examples=EXAMPLES, deadline=None)
    @given(case=grammar_cases(), other=grammar_cases(), rng=st.randoms(use_true_random=False))
    def law(case: GrammarCase, other: GrammarCase, rng: random.Random) -> None:
        texts = list(dict.fromkeys([*case.vocabulary, *other.vocabulary]))
        vocabulary = vocabulary_of(texts)
        vocabulary.__dict__["walk_cache"] = kept = WalkCache(4 * ((vocabulary.size + 31) // 32), few_nodes=-1)
        added: dict[str, int] = {}
        for ebnf in (case.ebnf, other.ebnf, case.ebnf, other.ebnf):
            try:
                classifier = walked_of(ebnf, vocabulary)
            except (UnsupportedGrammar, BudgetExceeded):
                reject()
            hits, size = kept.hits, len(kept)
            walk(classifier, ebnf, lambda wanted: min(wanted, key=lambda i: texts[i]), 1, 6)  # the same text
            counts[0] += added.get(ebnf, 0)
            counts[1] += kept.hits - hits if ebnf in added else 0  # in the second round
            added[ebnf] = len(kept) - size

    law()
    # a walk from several nodes may find what was kept for fewer of them, and ask once less
    assert counts[1] >= 0.9 * counts[0] > 0, counts


def test_long_walks_are_kept_within_their_bound() -> None:
    vocabulary = vocabulary_of([*map(bytes, product(b"abcdefgh", repeat=3)), b'"', b'a"'])
    masks: list[list[int]] = []
    entered: list[int] = []
    for limit in (1 << 20, 1 << 20, 200):
        if limit == 200 or not masks:  # a limit too small for anything, or the first round
            vocabulary.__dict__["walk_cache"] = WalkCache(64, limit, few_nodes=50)
        classifier = walked_of('root ::= "x"? [ad-h]* [b-d] "\\""', vocabulary)
        masks.append(row_of(classifier, classifier.session.start))
        entered.append(classifier.session.store.walker.n_entered)
    assert masks[0] == masks[1] == masks[2]
    assert len(masks[0]) > 100
    assert entered[1] < entered[0] == entered[2]
    assert len(vocabulary.walk_cache) == 0


COUNTED = [
    'root ::= "x" [a-z]{0,40} "."',
    "root ::= [a-z]{3,7} [a-c]{0,2}",
    'root ::= ([ab]{2} "-"?){3,5} "."',
    'root ::= [^.]{8,} "."',
    'root ::= [^.]{6,300} "." [^.]{2} "."?',
    'root ::= ("a" [^.]{1,9}){2,3} "."',
    'root ::= [a-zäöü€]{4,12} "."',
    'root ::= "a" ([^-.] | "-" [ab]){2,9} "." "x"*',
    'root ::= ([a-b] "." | "-"* "x"){1,4} [b-c]*',
]

PARTS = ["a", "b", "ab", "-", ".", "x", "ä", "€", "öü", "abc", "aaaaaaaa", "€€€", "a.", "b-a"]


@pytest.mark.parametrize("few_nodes", [512, -1])
@pytest.mark.parametrize("ebnf", COUNTED)
def test_counts_that_walks_forget_do_not_matter(ebnf: str, few_nodes: int) -> None:
    """Masks must be exact at every count, near and far from both bounds.

    Tokens are longer and shorter than what is left. Both ways are tested: walks that count, and kept numbers
    of units that strings begin. (XGrammar's own masks leave out tokens here that it accepts.)"""
    rng = random.Random(ebnf)
    tokens = sorted({"".join(rng.choices(PARTS, k=rng.randint(1, 6))).encode() for _ in range(400)})
    tokens += ["€".encode()[:2], "€".encode()[2:], "ä".encode()[:1], b"a" + "ä".encode()[:1]]
    vocabulary = vocabulary_of(list(dict.fromkeys(tokens)))
    kept = WalkCache(4 * ((vocabulary.size + 31) // 32), few_nodes=few_nodes)
    vocabulary.__dict__["walk_cache"] = kept
    classifier = walked_of(ebnf, vocabulary)

    def choose(wanted: list[int]) -> int:  # short ones go past all counts, long ones leap
        return min(rng.sample(wanted, min(4, len(wanted))), key=lambda i: len(vocabulary.tokens[i]))

    assert walk(classifier, ebnf, choose, 4, 40) > 12
    if few_nodes < 0:  # all but the units that may go on where they may end
        of_units = [one for one in {**kept._old, **kept._young}.values() if isinstance(one, UnitReads)]
        assert bool(of_units) == ('"-"?' not in ebnf)


LONG_UNIT = f'"{"a" * 64}" [b]'
"""More states than a unit may have."""

TOKENS_OF_UNITS = st.lists(st.text("ab-.ä", min_size=1, max_size=9).map(str.encode), min_size=1, unique=True)


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    texts=TOKENS_OF_UNITS,
    unit=st.sampled_from(["[ab]", "[^.]", '([^-.] | "-" [ab])', '"a"* "."', '([ab] "-"?)', LONG_UNIT]),
    fewest=st.integers(-2, 4),
    most=st.integers(0, 6),
    chosen=st.randoms(use_true_random=False),
)
def test_units_that_strings_begin(
    texts: list[bytes], unit: str, fewest: int, most: int, chosen: random.Random
) -> None:
    """Compare with reading every string in every way to cut it into units."""
    vocabulary = vocabulary_of(texts)
    grammar = xgrammar.Grammar.from_ebnf(f'root ::= unit{{3,9}} "<"\nunit ::= {unit}')
    network = build_network(grammar, token_bytes=9)
    automaton = Automaton(network.automaton)
    table = unit_table(automaton, int(network.automaton[5][0, 0]))
    assert (table is None) == ("?" in unit or unit == LONG_UNIT)
    if table is None:
        return
    trie = vocabulary.trie
    known = unit_reads(vocabulary.token_texts, table)
    below = {0: b""}  # the text of each node
    for node in range(len(trie.nodes) - 1):
        for child in range(trie.nodes[node, 0], trie.nodes[node + 1, 0]):
            below[child] = below[node] + bytes([trie.nodes[child, 3] & 255])
    nodes = [node for node, text in below.items() if cut(text, table) == (1, True)]
    nodes = sorted(chosen.sample(nodes, chosen.choice([0, len(nodes) // 2, len(nodes)])))
    answer = known.read(trie.nodes, np.array(nodes, np.int64), fewest, most)
    assert answer is not None
    read, left = answer
    ordered = sorted(texts)
    groups, pending = set(), set()
    for node in nodes:
        own = below[node]
        longer = {text: cut(text.removeprefix(own), table) for text in ordered if text.startswith(own)}
        begun = {text: found[0] for text, found in longer.items() if found and text != own}
        groups |= {ordered.index(text) for text, units in begun.items() if units <= most}
        for other, text in below.items():
            found = cut(text.removeprefix(own), table) if text.startswith(own) else None
            if found and found[1] and max(fewest, 0) <= found[0] <= most:
                under = [begun.get(one, 99) for one in longer if one.startswith(text) and one != text]
                if any(units > most for units in under):  # not all of what follows is read
                    pending.add(other)
    assert {g for first, end in read.ranges.reshape(-1, 2).tolist() for g in range(first, end)} == groups
    assert left.tolist() == sorted(pending)
    assert read.is_empty or groups
    if read.row is not None:
        allowed = np.unpackbits(read.row.view(np.uint8), bitorder="little")
        assert {vocabulary.tokens[i] for i in np.flatnonzero(allowed)} == {ordered[g] for g in groups}
    followers = np.zeros(256, np.uint8)
    followers[list(chosen.sample([*b"ab-."], 2))] = 1
    answer = known.read(trie.nodes, np.array(nodes, np.int64), fewest, most, followers, only_all=True)
    is_followed = {below[child][:-1] for child in below if child and followers[below[child][-1]]}
    if answer is not None:
        assert answer[0].ranges.tolist() == read.ranges.tolist()
        assert answer[1].tolist() == [node for node in left.tolist() if below[node] in is_followed]
    leads_on = np.diff(trie.nodes[:, 0]) > 0
    inner = [node for node, text in below.items() if leads_on[node] and cut(text, table) != (1, True)]
    if inner:
        assert known.read(trie.nodes, np.array(inner[:1]), fewest, most) is None


def cut(text: bytes, table: np.ndarray) -> tuple[int, bool] | None:
    """Return how many units a text begins, and whether the last one is complete; None if it is not read."""
    state, units, whole = 0, 0, True
    for byte in text:
        units += whole
        state = int(table[state, byte])
        if state == -1:
            return None
        whole = state == -2
        state = 0 if whole else state
    return units, whole


ON_A_FRAME = """
root ::= "<" ("na" ">" [0-9] | key "x") ";" | "." key ";"
key ::= [^>;n] free | "n" [^a>;] free | "n>"
free ::= [^>;] free | ">"
"""
IN_ITSELF = """
root ::= "<" list ">"
list ::= ("n" key "x" | key ";") list?
key ::= "(" key ")" | [^(>;)n] [^(>;)]* ";"
"""
KEYS = [
    ('root ::= "<" ("name>" [0-9] | "nbsp>" "x"* | [^>;]* ">" [a-d]) ";"', True),
    ('root ::= "<" ("na;me>" [0-9] | [^>;]* ">" [a-d])', True),  # reads more than the other
    ('root ::= "<" ([^n>;] [^>;]* ">" | "n" [^a>;]* ">" [0-9]?)', True),  # less, and something else
    ('root ::= "<" ("n" [^>;a]* | [^n>;] [^>;]*) ">"', False),  # less, in too many places
    ('root ::= "<" ("n" | [^>;]* ">")', True),  # may end where the other may not
    ('root ::= "<" ("n" [^>;]* ">" "." | [^n>;] [^>;]* ">" "x"*)', False),  # may not where the other may
    ('root ::= key "."\nkey ::= "<" ("n" | [^>;]* ">")', True),
    # may not return at a byte where the other may, and something follows the call
    ('root ::= key "."\nkey ::= "<" ([^>;n] [^>;]* ">" | ">" "x" | "n" key)', False),
    (ON_A_FRAME, True),
    (IN_ITSELF, False),
    ('root ::= key "."\nkey ::= "<" ("n;me>" [0-9] | [^>;.]*)', True),  # beside one that may end anywhere
    ('root ::= key ">" [a-d] ";"\nkey ::= "<" ("n;" | "na;" [^;]* | [^>;]*)', True),
]


@pytest.mark.parametrize(("ebnf", "is_compared"), KEYS)
def test_states_that_differ_in_little(ebnf: str, is_compared: bool) -> None:
    rng = random.Random(ebnf)
    parts = ["n", "na", "me", "b", "sp", ">", ">1", ">a", ";", "x", "ä", "name", "nbsp", ">b;", "."]
    tokens = {"".join(rng.choices(parts, k=rng.randint(1, 4))).encode() for _ in range(300)}
    vocabulary = vocabulary_of(sorted(tokens | {bytes([c]) for c in b"<>;name.x10"}))
    classifier = walked_of(ebnf, vocabulary)

    def order(token: int) -> tuple[bool, int]:
        return vocabulary.tokens[token][:1] != b"n", len(vocabulary.tokens[token])

    walk(classifier, ebnf, lambda wanted: min(rng.sample(wanted, min(3, len(wanted))), key=order), 6, 8)
    assert (classifier.session.store.walker.n_compared > 0) == is_compared


def fail(*_: object) -> None:
    raise MemoryError


def test_a_comparison_that_had_no_memory_is_made_later(monkeypatch: pytest.MonkeyPatch) -> None:
    ebnf = KEYS[2][0]
    vocabulary = vocabulary_of([bytes([c]) for c in b"<>;nameb x01"] + [b"na", b"me>", b"nbsp>x", b"n;"])
    classifier = walked_of(ebnf, vocabulary)
    configuration = classifier.step(classifier.session, classifier.session.start, 0)
    with monkeypatch.context() as patched:
        patched.setattr("hybrid.classifier.delta_walker.np", SimpleNamespace(empty=fail, int64=np.int64))
        with pytest.raises(MemoryError):
            row_of(classifier, configuration)
    walk(classifier, ebnf, random.Random(0).choice, 6, 8)
    assert classifier.session.store.walker.n_compared > 0


def test_forms_of_states_after_one_that_was_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    classifier = walked_of(f'root ::= "{"abc" * 80}"', vocabulary_of([b"a", b"b", b"c"]))
    automaton = classifier.session.store.space.automaton
    states, forms = range(automaton.n_states), CanonicalForm(automaton)
    with monkeypatch.context() as patched:
        patched.setattr("hybrid.classifier.canonical_form.bigger", fail)
        with pytest.raises(MemoryError):
            list(map(forms.of_state, states))
    fresh = CanonicalForm(automaton)
    assert list(map(forms.of_state, states)) == list(map(fresh.of_state, states))


def test_two_loops_that_lead_into_each_other() -> None:
    """Each leads into the other: reading them side by side without a check would never end."""
    ebnf = 'root ::= ";" | [0-9] root | [^0-9;] odd\nodd ::= [0-9] odd | [^0-9;] root'
    vocabulary = vocabulary_of([bytes([byte]) for byte in range(0x20, 0x7F)] + [b"ab", b"a1", b"1;", b"12"])
    classifier = walked_of(ebnf, vocabulary)
    walk(classifier, ebnf, random.Random(0).choice, 3, 4)


@pytest.mark.parametrize("begun", [b"", b"<", b"</"])
def test_few_characters_are_entered_in_free_text_between_tags(begun: bytes) -> None:
    """The automata read bytes: each byte is a loop, also inside a character and in ill-formed text."""
    characters = [chr(code).encode() for code in range(0x4E00, 0x4E00 + 3000)]
    others = [b"\xb8", b"\xff\xfe", b"\xe4", b"a\xe4\xb8<", b"a", b"<"]
    vocabulary = vocabulary_of([*characters, *others, *(one + b"<" for one in characters[:10])])
    ebnf = 'root ::= TagDispatch(("</t>", x), excludes=("</u>"))\nx ::= "a"'
    classifier = walked_of(ebnf, vocabulary)
    session = classifier.session
    configuration = session.store.advance_text(session.start, begun)
    assert row_of(classifier, configuration) == list(range(vocabulary.size))
    assert classifier.session.store.walker.n_entered < 200
    # as classes are found
    classes = compute_classes(xgrammar.Grammar.from_ebnf(ebnf), vocabulary)
    assert classes.sizes["configurations"] < 100
    assert len(set(classes.class_of_token[: len(characters)].tolist())) == 1


def test_most_of_a_vocabulary_is_not_entered_where_a_count_is_far_from_its_bounds() -> None:
    letters = (map(bytes, product(b"abcdefgh", repeat=length)) for length in (3, 1))
    vocabulary = vocabulary_of([*chain(*letters), b'"'])
    classifier = walked_of('root ::= [a-z]{0,2000} "\\""', vocabulary)
    walker = classifier.session.store.walker
    start = classifier.session.start
    for configuration in (start, classifier.step(classifier.session, start, 0)):
        assert len(row_of(classifier, configuration)) == vocabulary.size - 1
    assert walker.n_entered < vocabulary.size // 4


def test_masks_of_one_grammar_leave_nothing_to_those_of_another() -> None:
    """A vocabulary's rows share memory: words that a grammar with more classes left there must not matter."""
    names = [f"{number:04}" for number in range(2_400)]
    vocabulary = vocabulary_of([*(name.encode() for name in names), *(bytes((65 + k,)) for k in range(26))])
    pairs = " | ".join(f'"{one}" "{two}"' for one, two in pairwise(names))
    classifier = GrammarCompiler(vocabulary, strategy="classifier", cache_enabled=False)
    compiled = classifier.compile_grammar(f"root ::= {pairs}", static=True)
    assert compiled.classes.n_classes > MOST_PIECES
    bitmask = xgrammar.allocate_token_bitmask(1, vocabulary.size)
    GrammarMatcher(compiled).fill_next_token_bitmask(bitmask)
    # too few nodes for a walk to be kept, too many words for a patch
    walked = compiled_of('root ::= "0" [0-7] [02468] [0-7]', vocabulary, strategy="auto")
    assert walked.known_classes is None
    GrammarMatcher(walked).fill_next_token_bitmask(bitmask)
    assert ids_of(bitmask, vocabulary.size) == [
        number
        for number, name in enumerate(names)
        if name[0] == "0" and name[1] < "8" and int(name[2]) % 2 == 0 and name[3] < "8"
    ]
