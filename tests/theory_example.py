"""The example of docs/theory.md, computed: networks, stacks, what tokens do, classes and masks, as text.

What: functions that return the blocks and tables of the page's first section and of sections 3, 6 and 11, and
those of the variant that counts, of which section 5 shows parts. `python -m tests.theory_example` prints all.
When: `tests/test_theory_example.py` compares the page with them. If a block changes, change the page, too.
Limits: states have the names of the page (`NAMES`), in the order of their numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import xgrammar

from equivalence import Vocabulary, compute_classes
from equivalence.classes.explore import explore
from equivalence.classes.partition import partition_runs
from equivalence.network import Network, build_network
from equivalence.parser.absorption import absorbing_states
from equivalence.parser.automaton import Automaton
from equivalence.parser.byte_tables import ByteTables, call_ranks
from equivalence.parser.space import Space
from equivalence.walks.follow import follow_of
from hybrid.classifier.store import Store
from hybrid.classifier.summary_closure import SummaryClosure
from hybrid.classifier.tables import fixed_tables
from hybrid.classifier.walk_tables import walk_tables

GRAMMAR = """root   ::= value
value  ::= number | list
list   ::= "[" items "]"
items  ::= value | value "," items
number ::= [0-9]+
"""
LEFT_RECURSIVE = GRAMMAR.replace('value "," items', 'items "," value')
COUNTED = GRAMMAR.replace("[0-9]+", "[0-9]{1,5}")
TOKENS = ["1", "2", "12", "[", "[[", "]", "]]", ",", "],[", "1]"]


def vocabulary_of(*tokens: str) -> Vocabulary:
    """Some tokens, and a stop token after them."""
    return Vocabulary.from_bytes([*map(str.encode, tokens), b""], stop_token_ids=[len(tokens)])


VOCABULARY = vocabulary_of(*TOKENS)
NAMES = {GRAMMAR: "EKDNVLMJI", LEFT_RECURSIVE: "EKDNVLMJI", COUNTED: "EKCNVLMJI"}
ORDER = "VLMIJKENDC#"


class Outcome(NamedTuple):
    """What a text does on a symbol over an unknown rest.

    Attributes:
        label: the label with which it is read completely; -1 if it is not.
        left: the ports and the suffixes with which the symbol may be used up.
    """

    label: int
    left: list[tuple[int, str]]

    def __str__(self) -> str:
        read = "read" + (f", label {self.label}" if self.label else "")
        left = [f"`{suffix}` left" + (f", port {port}" if port else "") for port, suffix in self.left]
        return "; ".join([read] * (self.label >= 0) + left)


def part(starts: Any, rows: Any, i: int) -> Any:
    """The rows of entry i, given where the rows of each entry start."""
    return rows[starts[i] : starts[i + 1]].tolist()


def listed(lists: Any, i: int) -> Any:
    """Interned list i."""
    starts, pool = lists.lists()
    return part(starts, pool, i)


class Example:
    """One grammar of the page, with its network and its parser."""

    def __init__(self, grammar: str) -> None:
        self.grammar_text = grammar
        self.grammar = xgrammar.Grammar.from_ebnf(grammar)
        self.names = NAMES[grammar]
        self.network: Network = build_network(self.grammar, token_bytes=1 << 40)
        automaton = Automaton(self.network.automaton)
        ranks = call_ranks(automaton)
        self.byte_tables = ByteTables(automaton, ranks)
        self.follow = follow_of(self.network, self.byte_tables.first)
        self.below = self.network.below()
        self.contexts = self.below.contexts.tolist()
        self.contexts_in_order = sorted(self.contexts, key=lambda one: ORDER.index(self.name(one)))
        self.space = Space(automaton, self.byte_tables, ranks, absorbing_states(automaton), 64, 64)

    def name(self, symbol: int) -> str:
        return self.names[symbol] if symbol >= 0 else "#"

    def after(self, configuration: int, text: str) -> Iterator[int]:
        """Yield the configurations after each byte, until a byte cannot be read."""
        for byte in text.encode():
            configuration = self.space.following(configuration, self.byte_tables.class_of_byte[byte])
            yield configuration
            if not configuration:
                return

    def entries(self, configuration: int) -> tuple[int, list[int], list[tuple[int, int]]]:
        """Return the label, the ports and the pairs (state, tail) of a configuration."""
        starts, pool = self.space.configurations.lists()
        label, n_ports, *rest = part(starts, pool, configuration)
        pairs = rest[n_ports:]
        ports = [-1 - port for port in rest[:n_ports]]
        return label, ports, list(zip(pairs[::2], pairs[1::2], strict=True))

    def network_text(self) -> str:
        """One line for each state: its edges, its calls, and whether its rule may end there."""
        final, edge_starts, edges, call_starts, calls, counted = self.network.automaton[:6]
        lines = []
        for state, may_end in enumerate(final.tolist()):
            does = []
            for first, last, target in part(edge_starts, edges, state):
                name = chr(first) if first == last else f"{chr(first)}..{chr(last)}"
                does.append(f"{name} -> {self.name(target)}")
            for callee, back in part(call_starts, calls, state):
                does.append(f"call {self.name(callee)}, then {self.name(back) if back >= 0 else 'return'}")
            does += ["return"] * may_end
            lines.append(f"{self.name(state)}    {'    or '.join(does)}")
        lines += [f"#    {low} to {high} times {self.name(unit)}" for unit, low, high, _ in counted.tolist()]
        return "".join(line + "\n" for line in sorted(lines, key=lambda line: ORDER.index(line[0])))

    def below_sets_of(self, symbol: int) -> list[int]:
        """The below sets of a possible top."""
        own = self.below
        return list(part(own.context_starts, own.context_below, self.contexts.index(symbol)))

    def below_set(self, number: int) -> list[tuple[int, int]]:
        """The symbols of a below set, each with the below set of what lies under it."""
        own = self.below
        symbols = part(own.below_starts, own.below_symbols, number)
        return list(zip(symbols, part(own.below_starts, own.below_of_symbol, number), strict=True))

    def below_text(self) -> str:
        """What may lie directly below each possible top."""
        lines = []
        for symbol in self.contexts_in_order:
            allowed: list[str] = []
            for below in self.below_sets_of(symbol):
                allowed += [self.name(one) for one, _ in self.below_set(below)]
                allowed += ["nothing"] * bool(self.below.below_bottom[below])
            lines.append(f"{self.name(symbol)}    over {' or '.join(allowed)}\n")
        return "".join(lines)

    def below_sets_table(self) -> str:
        """The below sets, and the possible tops of which each describes what lies below."""
        lines = ["| below set | of | what may lie directly below |", "|---|---|---|"]
        for i, is_bottom in enumerate(self.below.below_bottom.tolist()):
            members = [f"`{self.name(one)}` over set {below}" for one, below in self.below_set(i)]
            members += ["nothing"] * is_bottom
            users = [f"`{self.name(one)}`" for one in self.contexts_in_order if i in self.below_sets_of(one)]
            lines.append(f"| {i} | {', '.join(users)} | {', or '.join(members)} |")
        return "".join(line + "\n" for line in lines)

    def allowed_stacks(self, height: int) -> set[tuple[str, ...]]:
        """The stacks of at most this height that contexts and below sets allow."""
        found: set[tuple[str, ...]] = set()
        pending: list[tuple[tuple[str, ...], int]] = []
        for symbol in self.contexts:
            pending += [((self.name(symbol),), below) for below in self.below_sets_of(symbol)]
        while pending:
            stack, below = pending.pop()
            if self.below.below_bottom[below]:
                found.add(stack)
            if len(stack) < height:
                pending += [((*stack, self.name(s)), after) for s, after in self.below_set(below)]
        return found

    def stacks(self, text: str) -> list[list[str]]:
        """All stacks after a text, each with its top first."""
        *_, configuration = self.after(self.space.context_of(self.network.start), text)
        return self.stacks_of(configuration)

    def stacks_of(self, configuration: int) -> list[list[str]]:
        """All stacks of a configuration, as `stacks`."""
        _, ports, pairs = self.entries(configuration)
        found = [[self.name(state), *rest] for state, tail in pairs for rest in self.rests(tail)]
        return sorted(found, key=lambda one: (-len(one), one)) + [[]] * len(ports)

    def stacks_text(self, text: str) -> str:
        """One line for each stack after a text."""
        return "".join(f"{' '.join(stack)}\n" for stack in self.stacks(text))

    def rests(self, tail: int) -> Iterator[list[str]]:
        for number, state, count, below in self.space.stacks.frames_of(tail):
            if not number:
                yield []
                continue
            for rest in self.rests(below):
                yield [self.name(state) if state >= 0 else f"#{count}", *rest]

    def outcome(self, symbol: int, text: str, under: bool = False) -> Outcome:
        """Read a text on a symbol.

        Args:
            symbol: a state, or -1 for the counted rule.
            text: a token or a suffix of one.
            under: whether the symbol lies under another one, so that it may be dropped before the first byte.
        """
        at, left = self.space.context_of(symbol), []
        reached = [at, *self.after(at, text)]
        for depth, configuration in enumerate(reached):
            if configuration and depth < len(text) and (depth or under):
                left += [(port, text[depth:]) for port in self.entries(configuration)[1]]
        label = self.entries(reached[-1])[0] if len(reached) > len(text) and reached[-1] else -1
        return Outcome(label, [] if label == 0 else left)

    def outcomes_table(self) -> str:
        """What each token does in each context."""
        lines = ["| token | " + " | ".join(f"`{self.name(one)}`" for one in self.contexts_in_order) + " |"]
        lines.append("|---" * (len(self.contexts) + 1) + "|")
        for token in TOKENS:
            cells = []
            for symbol in self.contexts_in_order:
                follow = self.follow.contexts[self.contexts.index(symbol)]
                label, left = self.outcome(symbol, token)
                left = [one for one in left if follow[self.byte_tables.class_of_byte[ord(one[1][0])]]]
                cells.append(str(Outcome(label, left)))
            lines.append(" | ".join([f"| `{token}`", *cells]) + " |")
        return "".join(line + "\n" for line in lines)

    def features_text(self) -> str:
        """The features of each token: in each context, whether it is read outright, or a color above 0."""
        trie = VOCABULARY.trie
        found = explore(self.network, trie)
        walked = found.walked
        queries = map(tuple, found.queries.lists()[1].reshape(-1, 2).tolist())
        color = dict(zip(queries, found.colors.tolist(), strict=True))
        features: dict[str, dict[str, str]] = {token: {} for token in TOKENS}
        for token, group in zip(TOKENS, trie.group_of_token.tolist(), strict=False):
            for context, block in part(walked.user_starts, walked.users, ord(token[0])):
                name = self.name(self.contexts[context])
                if any(
                    begin <= group < end for begin, end in part(walked.range_starts, walked.ranges, block)
                ):
                    features[token][name] = "read"
                (below,) = self.below_sets_of(self.contexts[context])
                outcomes = dict(part(walked.event_starts, walked.events, block))
                if group in outcomes and color[outcomes[group], below]:
                    features[token][name] = f"color {color[outcomes[group], below]}"
        lines = []
        for token, own in features.items():
            listed = [f"{name} {own[name]}" for name in ORDER if name in own]
            lines.append(f"{token:<5}{', '.join(listed)}\n")
        return "".join(lines)

    def partition_table(self) -> str:
        """The runs of the vocabulary: what their blocks do with them, their features, and their classes."""
        trie = VOCABULARY.trie
        found = explore(self.network, trie)
        walked = found.walked
        byte_starts = np.searchsorted(trie.first_byte, np.arange(257))
        runs = partition_runs(found, self.network, trie, byte_starts)
        features = dict(line.split(maxsplit=1) for line in self.features_text().splitlines())
        classes = classes_of(self.grammar_text)
        groups = trie.group_of_token.tolist()
        lines = ["| run | blocks | features | class |", "|---|---|---|---|"]
        for begin, end in zip(runs.starts.tolist(), [*runs.starts.tolist()[1:], trie.n_groups], strict=False):
            tokens = [TOKENS[groups.index(group)] for group in range(begin, end)]
            if not tokens:
                continue
            users: dict[int, list[int]] = {}
            for context, block in part(walked.user_starts, walked.users, ord(tokens[0][0])):
                users.setdefault(block, []).append(self.contexts[context])
            blocks = []
            for own in users.values():
                own.sort(key=lambda one: ORDER.index(self.name(one)))
                named = " ".join(f"`{self.name(one)}`" for one in own)
                does = str(self.outcome(own[0], tokens[0]))
                blocks += [f"{named} {does}"] * bool(does)
            blocks.sort(key=lambda one: ORDER.index(one[1]))
            (number,) = (i for i, own in enumerate(classes) if set(tokens) <= own)
            run = " ".join(f"`{token}`" for token in tokens)
            lines.append(f"| {run} | {'; '.join(blocks)} | {features[tokens[0]]} | {number} |")
        return "".join(line + "\n" for line in lines)

    def summaries_text(self) -> str:
        """All summaries of the classifier: of each state on top, and of each pending set on each symbol."""
        texts = sorted(token.encode() for token in representatives(self.grammar))
        fixed = fixed_tables(self.network, texts, *VOCABULARY.flat)
        store = Store(fixed, 1 << 28)
        summaries = store.summaries
        assert not SummaryClosure(store, self.network.below()).run(1 << 20, 1 << 20)
        numbers = [representatives(self.grammar).index(text.decode()) for text in texts]

        def mask(number: int) -> str:
            (word,) = listed(summaries.masks, number)
            classes = sorted(numbers[i] for i in range(len(texts)) if word >> i & 1)
            return f"reads {' '.join(map(str, classes))}" if classes else ""

        return self.summaries_lines(summaries, mask, fixed.texts.nodes)

    def walked_text(self, text: str) -> str:
        """The summaries from walks that the mask after a text needs."""
        tables = walk_tables(self.network, VOCABULARY)
        store = Store(tables, 1 << 28)
        configuration = store.start()
        store.class_mask(store.advance_text(configuration, text.encode()))
        walker = store.walker
        groups = VOCABULARY.trie.group_of_token.tolist()

        def mask(number: int) -> str:
            words = listed(store.summaries.masks, number)
            pieces = [i for i in range(32 * len(words)) if words[i // 32] >> i % 32 & 1]
            read = []
            for piece in pieces:
                bounds = listed(walker.pieces, piece)
                for first, end in zip(bounds[::2], bounds[1::2], strict=True):
                    read += [TOKENS[groups.index(group)] for group in range(first, end)]
            return f"reads {' '.join(read)}" if read else ""

        return self.summaries_lines(store.summaries, mask, VOCABULARY.trie.nodes)

    def summaries_lines(self, summaries: Any, mask: Any, nodes: Any) -> str:
        """One line for each summary, given the texts of masks and the trie."""
        path = [""] * len(nodes)
        for i in range(len(nodes) - 1):
            for child in range(nodes[i][0], nodes[i + 1][0]):
                path[child] = path[i] + chr(nodes[child][3] & 255)

        def pending(number: int) -> str:
            return ", ".join(f"node {path[node]}" for node in listed(summaries.pendings, number))

        def result(read: int, left: int) -> str:
            parts = [mask(read)] * bool(read) + [f"{pending(left)} is pending"] * bool(left)
            return ", ".join(parts) or "reads nothing"

        lines = []
        first = summaries.first_rows().tolist()
        for symbol in self.contexts_in_order:
            if symbol >= 0 and first[symbol][0] >= 0:
                lines.append(f"{self.name(symbol):<16}{result(*first[symbol])}\n")
        for left, symbol, read, below in summaries.known_rows().tolist():
            lines.append(f"{f'{pending(left)} on {self.name(symbol)}':<16}{result(read, below)}\n")
        return "".join(lines)

    def reading_text(self, text: str) -> str:
        """How the representatives are read on each stack after a text, from its top."""
        lines = []
        for stack in self.stacks(text):
            pending = dict(enumerate(representatives(self.grammar)))
            steps = []
            for depth, name in enumerate(stack):
                read, left = [], {}
                for number, suffix in pending.items():
                    outcome = self.outcome(self.names.index(name), suffix, under=depth > 0)
                    read += [str(number)] * (outcome.label == 0)
                    for _, rest in outcome.left:
                        left[number] = rest
                said = [f"reads {' '.join(read)}"] * bool(read)
                said += [f"{rest} of {number} is left" for number, rest in left.items()]
                steps.append(f"{name}: {', '.join(said) or 'reads nothing'}")
                pending = left
                if not pending:
                    break
            lines.append(f"{' '.join(stack):<12}{'    '.join(steps)}\n")
        return "".join(lines)


def classes_of(grammar: str, relation: str = "acceptance") -> list[set[str]]:
    """The tokens of each class."""
    found = compute_classes(xgrammar.Grammar.from_ebnf(grammar), VOCABULARY, relation)
    return [{TOKENS[token] for token in found.members(number)} for number in range(found.n_classes)]


def classes_table(classes: list[set[str]]) -> str:
    """The tokens of each class, in the vocabulary's order."""
    cells = [" ".join(f"`{token}`" for token in TOKENS if token in own) for own in classes]
    numbers = " | ".join(map(str, range(len(classes))))
    return f"| class | {numbers} |\n{'|---' * (len(classes) + 1)}|\n| tokens | {' | '.join(cells)} |\n"


def representatives(grammar: xgrammar.Grammar) -> list[str]:
    return [TOKENS[token_id] for token_id in compute_classes(grammar, VOCABULARY).representatives.tolist()]


EXAMPLE = Example(GRAMMAR)
BLOCKS = [
    GRAMMAR, EXAMPLE.network_text(), EXAMPLE.stacks_text("[1,[2"), EXAMPLE.stacks_text("[1"),
    EXAMPLE.below_text(), EXAMPLE.features_text(), EXAMPLE.reading_text("[1,[2"),
    EXAMPLE.reading_text("[1,[2]"), EXAMPLE.summaries_text(), EXAMPLE.walked_text("[1,[2"),
]  # fmt: skip
TABLES = [
    EXAMPLE.outcomes_table(), EXAMPLE.below_sets_table(), EXAMPLE.partition_table(),
    classes_table(classes_of(GRAMMAR)), classes_table(classes_of(COUNTED)),
]  # fmt: skip

if __name__ == "__main__":
    counted = Example(COUNTED)
    print(*BLOCKS, *TABLES, counted.network_text(), counted.outcomes_table(), sep="\n")
    print(counted.stacks_text("[1234"), counted.stacks_text("[12345"), counted.features_text(), sep="\n")
