"""The network: its normal form, the grammars that it refuses with a reason, and its bounds."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import xgrammar

from equivalence.classes import compute_classes
from equivalence.classes.explore import Capacity, explore
from equivalence.errors import BudgetExceeded, GrammarError, UnsupportedGrammar
from equivalence.network import Network, build_network, dialect
from equivalence.network.edge_types import BYTES, CALL, EMPTY
from equivalence.network.pipeline import NetworkPipeline
from equivalence.vocabulary import Vocabulary
from tests.limits import a_stop
from tests.versions import whole_repeats

pytestmark = pytest.mark.kernels

SMALL = Capacity(configurations=2_000, nodes=8_000, outcomes=8_000, items=8_000)
"""A grammar of a few lines that needs more has a loop that reads nothing."""


def network(ebnf: str, **options: Any) -> Network:
    return build_network(xgrammar.Grammar.from_ebnf(ebnf), **({"token_bytes": 8} | options))


def arrays(found: Network) -> list[Any]:
    """All numbers that a network consists of."""
    parts = (*found.automaton, found.start, found.start_final, *found.below())
    return [np.asarray(part).tolist() for part in parts]


def assert_same_classes(grammar: Any, other: Any, tokens: list[bytes], needless: int = 0) -> None:
    """Assert that a grammar partitions tokens as another one of the same language does, which has no needless
    classes.

    Both may be EBNF texts. `needless` is the number of additional classes of the first one.
    """
    vocabulary = Vocabulary.from_bytes(tokens)
    both = (xgrammar.Grammar.from_ebnf(one) if isinstance(one, str) else one for one in (grammar, other))
    classes = (compute_classes(one, vocabulary, capacity=SMALL) for one in both)
    found, wanted = (one.class_of_token.tolist() for one in classes)
    numbers = dict(zip(found, wanted, strict=True))
    assert [numbers[number] for number in found] == wanted
    assert len(numbers) - len(set(numbers.values())) == needless
    assert numbers.get(-1, -1) == -1


def strings(alphabet: str, longest: int) -> list[bytes]:
    """All byte strings over ASCII letters, of one byte up to the greatest length."""
    found = [b""]
    for text in found:
        if len(text) < longest:
            found += [text + letter.encode() for letter in alphabet]
    return found[1:]


# --- The normal form keeps the language ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ebnf", "plain"),
    [
        # rules that may be empty
        ('root ::= p "a" p\np ::= "b" | ""', 'root ::= "b"? "a" "b"?'),
        ('root ::= p q "c"\np ::= "a" | q\nq ::= "b"?', 'root ::= "a"? "b"? "c" | "b" "b" "c"'),
        ('root ::= p p\np ::= ""', 'root ::= ""'),
        # left recursion: direct, with several starts, indirect, through rules that may be empty
        ('root ::= root "b" | "a"', 'root ::= "a" "b"*'),
        ('root ::= root "b" | root "c" | "a" | "b"', "root ::= [ab] [bc]*"),
        ('root ::= p "b" | "a"\np ::= root "c"', 'root ::= "a" ("cb")*'),
        ('root ::= p | "a"\np ::= q "b"\nq ::= root "c" | "b"', 'root ::= ("a" | "bb") ("cb")*'),
        ('root ::= e root "b" | "a"\ne ::= ""', 'root ::= "a" "b"*'),
        ('root ::= root | "a"', 'root ::= "a"'),
        # tail calls, of the rule itself and of others
        ('root ::= "a" root | "b"', 'root ::= "a"* "b"'),
        ('root ::= "a" p\np ::= "b" root | "c"', 'root ::= ("ab")* "ac"'),
        ('root ::= "a" p | "c"\np ::= root', 'root ::= "a"* "c"'),
        # positions that only call another rule: at the start, after a byte, after a return, and in a unit
        ('root ::= p\np ::= q\nq ::= [ab] q | "c"', 'root ::= [ab]* "c"'),
        ('root ::= "a" p "b"\np ::= q | "c" q\nq ::= [ab] q | "c"', 'root ::= "a" "c"? [ab]* "cb"'),
        ('root ::= p p "a"\np ::= q\nq ::= [bc] q | "a"', 'root ::= [bc]* "a" [bc]* "aa"'),
        ('root ::= u{4,5}\nu ::= p\np ::= [bc] p | "a"', 'root ::= ([bc]* "a"){4} ([bc]* "a")?'),
        # repeats, counted or not
        ('root ::= x{5,7}\nx ::= "a"', 'root ::= "aaaaa" ("a" "a"?)?'),
        ('root ::= x{2,}\nx ::= "a" | "b"', "root ::= [ab] [ab]+"),
        pytest.param('root ::= x{2}\nx ::= y{2}\ny ::= "a"', 'root ::= "aaaa"', marks=whole_repeats),
        ('root ::= x{0}\nx ::= "a"', 'root ::= ""'),
        # lookahead assertions are ignored
        ('root ::= x "b"\nx ::= "a"* (= "b")', 'root ::= "a"* "b"'),
    ],
)  # fmt: skip
def test_the_normal_form_keeps_the_language(ebnf: str, plain: str) -> None:
    assert_same_classes(ebnf, plain, strings("abc", 4))


def test_ambiguity_may_cost_classes() -> None:
    # the stack records how often p was called, which makes no difference
    calls = 'root ::= "c" p "a"\np ::= p p | "b" | ""'
    assert_same_classes(calls, 'root ::= "c" "b"* "a"', strings("abc", 4), needless=2)
    # so does the counter, if the remaining units may be empty
    counted, plain = 'root ::= x{0,5} "b"\nx ::= "a"?', 'root ::= ("a" ("a" ("a" ("a" "a"?)?)?)?)? "b"'
    assert_same_classes(counted, plain, strings("abc", 4), needless=3)


@pytest.mark.parametrize(
    "ebnf",
    [
        # rules before a left call may be empty or read something
        'root ::= maybe root "a" | "b"\nmaybe ::= "c" | ""',
        # nothing is ever read
        'root ::= p*\np ::= root q\nq ::= ""',
        'root ::= root root | ""',
        'root ::= "a" p "b"\np ::= r*\nr ::= p q\nq ::= "" | "c"',
        'root ::= "a" p\np ::= p{0,2} q | "b"\nq ::= "c"?',
    ],
)
def test_hidden_left_recursion_ends(ebnf: str) -> None:
    """Stacks must not grow unless a byte is read: the exploration stays within a small capacity."""
    vocabulary = Vocabulary.from_bytes(strings("abc", 3))
    assert len(explore(network(ebnf), vocabulary.trie, capacity=SMALL).colors) < 1000


# --- Size ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bounds", ["{0,500}", "{3,100000}", "{3,1000000}", "{1000000}", "{40,}", "{100000,}", "{0,1000000}"]
)
@pytest.mark.parametrize("unit", ['"ab" | "c"', '"a" "b"*', '"a" | ""', 'x | "b"\nx ::= "a" y\ny ::= "c"?'])
def test_states_do_not_grow_with_the_bounds_of_a_repeat(unit: str, bounds: str) -> None:
    large = network(f'root ::= "[" u{bounds} "]"\nu ::= {unit}')
    assert large.n_states == network(f'root ::= "[" u{{4,9}} "]"\nu ::= {unit}').n_states < 20


def test_nested_repeats_stay_small() -> None:
    assert network('root ::= x{3,5000}\nx ::= y{7,90000} "b"\ny ::= z{2,400} "c"\nz ::= "a"').n_states < 20


LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZijklmnopqrstuvwxyz"
EVERY_OTHER = "[" + "".join(map(chr, [*range(48, 58, 2), *range(65, 91, 2)])) + "]"
TWENTY = "x ::= " + " | ".join(f'"{chr(byte)}" "."' for byte in range(65, 104, 2) if byte != 92)
COPIED = 'x ::= "a" "b"? "c"? "d"? | "b" "c"? "d"? | "d" "a" | "e" "a" | "f" "a" | "g" "a" | "h" "a"'


@pytest.mark.parametrize(
    ("ebnf", "n_states", "n_edges"),
    [
        # subsets: whether the tenth letter from the end is "a" needs 2**10 of them
        ('root ::= [ab]* "a"' + " [ab]" * 9, 2**10, 2**11),
        # edges
        ("root ::= " + " ".join([EVERY_OTHER] * 400), 401, 400 * 18),
        # ways out of a subset: the first one holds the copies of all calls, 20 edges in each
        (
            f"{TWENTY}\nroot ::= " + " | ".join(f'x "{one}{one}"' for one in LETTERS),
            1 + 1 + 1 + len(LETTERS) + 1,
            20 + 1 + 2 * len(LETTERS),
        ),
    ],
)
def test_tables_that_outgrow_the_first_room(ebnf: str, n_states: int, n_edges: int) -> None:
    found = network(ebnf)
    assert (found.n_states, len(found.automaton[2])) == (n_states, n_edges)


BRACKETS = 'x ::= "a" root "b"\n'
PAIRS = [f'x "{one}{two}"' for one in LETTERS[:20] for two in LETTERS[:3]]


def calls(n: int, *firsts: str) -> str:
    """After each of the first texts, calls of rules that loop, so that they are not copied; in any order."""
    order = list(range(n))
    parts = []
    for first in firsts:
        parts.append(f"{first} ({' | '.join(f'r{i}' for i in order)})")
        random.Random(n).shuffle(order)
    rules = [f'r{i} ::= "{i:03}" [a-z]*' for i in range(n)]
    return "\n".join([*rules, "root ::= " + " | ".join(parts)])


def chain(length: int) -> str:
    """Rules that only call the next one; the last one reads a text."""
    return "".join(f"r{i} ::= r{i + 1}\n" for i in range(length)) + f"r{length} ::= [^.] r{length} | [.]\n"


@pytest.mark.parametrize(
    ("ebnf", "shorter"),
    [
        # a rule that is not used, and equal rules
        (f'{BRACKETS}root ::= "[" x* "]"\nunused ::= "never" root', f'{BRACKETS}root ::= "[" x* "]"'),
        (
            f'{BRACKETS}root ::= "[" x* "]" | "(" y* ")"\ny ::= "a" root "b"',
            f'{BRACKETS}root ::= "[" x* "]" | "(" x* ")"',
        ),
        # copies of a rule, more than there is room for at first
        (f"{COPIED}\nroot ::= {' | '.join(PAIRS)}", f"{COPIED}\nroot ::= x [0-9A-J] [0-2]"),
        # calls in another order
        *((calls(n, '"a"', '"b"'), calls(n, "[ab]")) for n in (2, 16, 17, 40, 300)),
        # chains of rules that pass on
        *((f'{chain(n)}root ::= "x" r0 "!"', f'{chain(n)}root ::= "x" r{n} "!"') for n in (1, 2, 30)),
    ],
)
def test_what_reads_the_same_has_as_many_states(ebnf: str, shorter: str) -> None:
    assert network(ebnf).n_states == network(shorter).n_states


def test_states_that_pass_on_are_the_states_they_pass_on_to() -> None:
    # as XGrammar writes a property name that matches no pattern: a first character, then any text
    text = "text ::= [^b] text | [b]\n"
    passing = network(text + 'root ::= "(" [ab] text ")" text | "c" other\nother ::= text')
    plain = network(text + 'root ::= "(" [ab] text ")" text | "c" text')
    assert passing.n_states == plain.n_states
    final, edge_starts, _, call_starts, calls, _ = passing.automaton
    for state in range(passing.n_states):
        lone = call_starts[state + 1] - call_starts[state] == 1 and not final[state]
        if lone and edge_starts[state + 1] == edge_starts[state]:
            assert calls[call_starts[state], 1] >= 0  # something follows the call
    assert len(passing.below().contexts) == len(plain.below().contexts)


def moore(final: Any, edges: list[list[Any]], calls: list[list[Any]]) -> Any:
    """The coarsest bisimulation, refined in rounds over all states; a call names the first state of a
    rule."""
    block = [0] * len(final)
    while True:
        keys = []
        for state in range(len(final)):
            after = {byte: block[t] for low, high, t in edges[state] for byte in range(low, high + 1)}
            called = frozenset((block[callee], block[back]) for callee, back in calls[state])
            keys.append((final[state], frozenset(after.items()), called))
        numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        if len(numbers) == len(set(block)):
            return block
        block = [numbers[key] for key in keys]


@pytest.mark.parametrize("seed", range(80))
def test_states_of_one_class_are_bisimilar(seed: int) -> None:
    rng = random.Random(seed)
    n = rng.randint(1, 24)
    # of some graphs, each node has copies, whose edges lead to any copies: cycles are unrolled, or nested
    n_copies = rng.choice([1, 1, 2, 3])

    def a_copy(node: int) -> int:
        return node + n * rng.randrange(n_copies)

    spread = rng.choice([2, 5, n])  # edges to nearby nodes make long chains and cycles
    edges, calls = {}, {}
    for node in range(n):
        near = [min(max(node + rng.randint(-spread, spread), 0), n - 1) for _ in range(4)]
        bounds = rng.choice([[], [97, 98], [97, 98], [97, 98, 99], [97, 99]])
        edges[node] = [(low, high - 1, to) for (low, high), to in zip(pairwise(bounds), near, strict=False)]
        both = (near[2] % 4, near[3]), (near[3] % 4, near[0])
        calls[node] = [call for call, chance in zip(both, (0.3, 0.1), strict=True) if rng.random() < chance]
    for copy in range(n, n * n_copies):
        edges[copy] = [(low, high, a_copy(target)) for low, high, target in edges[copy % n]]
        calls[copy] = [(rule, a_copy(back)) for rule, back in calls[copy % n]]
    final = {node for node in range(n * n_copies) if rng.random() < 0.2}
    merged_and_wanted(final, edges, calls, [rng.randrange(n * n_copies) for _ in range(4)])


@pytest.mark.parametrize("length", [2, 31, 33])
def test_copies_of_a_long_cycle_are_merged(length: int) -> None:
    # the last node of each of two cycles may end; the root leads into both, and to a node that does nothing
    edges = {2 * length: [(97, 97, 0), (98, 98, length), (99, 99, 2 * length + 1)], 2 * length + 1: []}
    for node in range(2 * length):
        begin = node // length * length
        edges[node] = [(97, 97, begin + (node + 1) % length)]
    final = {length - 1, 2 * length - 1}
    # the start, the first node, one cycle, and the node that does nothing
    assert merged_and_wanted(final, edges, {node: [] for node in edges}, [2 * length]) == (length + 3,) * 2


def expanded(stacks: set[tuple[int, ...]], automata: Any) -> set[tuple[int, ...]]:
    """All stacks that some stacks can become without reading; the empty one means that the text may end."""
    final, _, calls = automata
    found = list(stacks)
    for stack in found:
        *rest, top = stack or (None,)
        if stack:
            others = [(*rest, *(back,) * (back >= 0), callee) for callee, back in calls[top]]
            found += {*others, *((tuple(rest),) if final[top] else ())}.difference(found)
    return set(found)


def after_each_byte(stacks: set[tuple[int, ...]], automata: Any) -> dict[int, set[tuple[int, ...]]]:
    """The stacks after each byte that can be read."""
    found: dict[int, set[tuple[int, ...]]] = {}
    for *rest, top in filter(None, stacks):
        for low, high, target in automata[1][top]:
            for byte in range(low, high + 1):
                found.setdefault(byte, set()).add((*rest, target))
    return {byte: expanded(after, automata) for byte, after in found.items()}


def merged_and_wanted(final: set[int], edges: Any, calls: Any, begins: list[int]) -> tuple[int, int]:
    """Assert that a network reads the same as the automata of which it was made. Return how many states it
    has, and how many of them Moore's algorithm separates.

    Each rule reads "z" and walks from one of `begins` through its own copy of a graph.
    """
    rows = []
    for rule, begin in enumerate(begins):
        base = 2 * len(begins) + rule * len(edges)
        rows.append((2 * rule, BYTES, ord("z"), ord("z"), base + begin))
        for node in edges:
            rows += [(base + node, BYTES, low, high, base + target) for low, high, target in edges[node]]
            rows += [(base + node, CALL, callee, 0, base + back) for callee, back in calls[node]]
        rows += [(base + node, EMPTY, 0, 0, 2 * rule + 1) for node in final]
    making, none = NetworkPipeline(), np.zeros(0, np.int64)
    n_states = len(begins) * (2 + len(edges))
    bodies = np.full(len(begins), -1)
    assert not making.begin(none, none, bodies, 0, 10_000, np.array(rows), n_states, a_stop(), False)
    (ends, edge_starts, spans, call_starts, returns, _), start, _ = making.merge(8)
    made = (
        ends.tolist(),
        [rows.tolist() for rows in np.split(spans, edge_starts[1:-1])],
        [rows.tolist() for rows in np.split(returns, call_starts[1:-1])],
    )
    given: Any = (defaultdict(bool), defaultdict(list), defaultdict(list))
    for source, kind, *numbers, target in rows:
        if kind == BYTES:
            given[1][source].append((*numbers, target))
        elif kind == CALL:
            given[2][source].append((2 * numbers[0], target))
        else:
            given[0][source] = True
    pairs = [(expanded({(0,)}, given), expanded({(start,)}, made))]
    seen: set[Any] = set()
    for ours, theirs in pairs:
        both = after_each_byte(ours, given), after_each_byte(theirs, made)
        assert both[0].keys() == both[1].keys() and (() in ours) == (() in theirs)
        for byte, after in both[0].items():
            key = frozenset(after), frozenset(both[1][byte])
            if key not in seen and len(seen) < 200 and len(after) < 40:
                seen.add(key)
                pairs.append((after, both[1][byte]))
    n = len(made[0])  # the state at which tail calls end
    separate = [[(callee, back % (n + 1)) for callee, back in own] for own in made[2]]
    return n, len(set(moore([*made[0], 1], [*made[1], []], [*separate, []])[:n]))


@pytest.mark.parametrize(
    "ebnf",
    [
        'root ::= "' + "ab" * 300 + '"',
        # whether the 14th letter from the end is "a" needs 2**14 subsets
        'root ::= [ab]* "a"' + " [ab]" * 14,
    ],
)
def test_max_states(ebnf: str) -> None:
    with pytest.raises(BudgetExceeded, match=r"more than 500 states; raise Budget\.states"):
        network(ebnf, max_states=500)


# --- Refused by name --------------------------------------------------------------------------------------


TOKEN_TAG = {
    "begin": {"type": "token", "token": 3}, "content": {"type": "const_string", "value": "a"}, "end": ">",
}  # fmt: skip
COUNTED = {"type": "any_text", "max_chars": 4}


@pytest.mark.parametrize(
    ("content", "named"),
    [
        # structural tags that count or name tokens
        ({"type": "token", "token": 3}, "token ids"),
        ({"type": "exclude_token", "exclude_tokens": [3]}, "excluded tokens"),
        ({"type": "any_tokens", "exclude_tokens": [3]}, "excluded tokens"),
        ({"type": "token_triggered_tags", "trigger_tokens": [3], "tags": [TOKEN_TAG]}, "token tag dispatch"),
        ({"type": "any_text", "max_tokens": 4}, "max_tokens"),
        (COUNTED, "max_chars"),
        ({"type": "tag", "begin": "<", "end": ">", "content": COUNTED}, "max_chars"),
        # attributes of Lark rules
        ("lazy", "rule 'a' .* lazy"),
        ("max_tokens=3", "rule 'a' .* max_tokens"),
        ("max_chars=3", "rule 'a' .* max_chars"),
        ('suffix="x"', "lazy|type"),
        ('stop="x"', "lazy|type"),
    ],
)
def test_constructs_that_are_refused_by_name(content: Any, named: str) -> None:
    if isinstance(content, str):
        grammar = xgrammar.Grammar.from_lark(f'start: a "b"\na[{content}]: /[a-z]*/\n')
    else:
        grammar = xgrammar.Grammar.from_structural_tag({"type": "structural_tag", "format": content})
    with pytest.raises(UnsupportedGrammar, match=named):
        build_network(grammar, token_bytes=8)


@pytest.mark.parametrize("attribute", ["capture", 'capture="name"', "temperature=0.5"])
def test_attributes_that_masks_do_not_depend_on(attribute: str) -> None:
    grammar = xgrammar.Grammar.from_lark(f'start: a "b"\na[{attribute}]: /[a-z]*/\n')
    plain = xgrammar.Grammar.from_lark('start: a "b"\na: /[a-z]*/\n')
    assert_same_classes(grammar, plain, strings("abZ", 3))


def test_a_refused_construct_in_a_rule_that_is_not_used_does_not_matter() -> None:
    assert network('root ::= "a"\nunused ::= Token(3)').n_states == 2


def test_left_recursion_through_a_bounded_repeat() -> None:
    with pytest.raises(UnsupportedGrammar, match=r"a bounded repeat: .* or repeat it at most 3 times"):
        network('root ::= x{0,9} "b"\nx ::= root "a"')
    for repeated in ("x{0,3}", '("c" x){0,9}'):  # what the message advises
        assert network(f'root ::= {repeated} "b"\nx ::= root "a"').n_states > 0


@pytest.mark.parametrize("version", ["v15", "v17", None])
def test_another_version_of_the_serialisation(version: str | None) -> None:
    serialised = json.loads(xgrammar.Grammar.from_ebnf('root ::= "a"').serialize_json())
    serialised["__VERSION__"] = version
    with pytest.raises(GrammarError, match=rf"{dialect.LAYOUT}.*install xgrammar"):
        build_network(serialised, token_bytes=8)


@pytest.mark.parametrize(
    "ebnf", ['root ::= "é" x{2,9}\nx ::= "a" | [^b-z]', 'root ::= "a" Regex("b+") | "\\""']
)
def test_a_serialised_grammar_gives_the_same_network(ebnf: str) -> None:
    grammar = xgrammar.Grammar.from_ebnf(ebnf)
    serialised = build_network(json.loads(grammar.serialize_json()), token_bytes=8)
    assert arrays(build_network(grammar, token_bytes=8)) == arrays(serialised)
