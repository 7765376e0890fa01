"""``python -m bench separation``: why there are more classes than masks of walks tell apart.

What: takes pairs of classes that all masks along random walks treat alike, looks for a stack on which one
token of the pair is read and the other is not, and for a text that leads to it; then asks the mask there.
When: to explain the gap between the number of classes and their observed lower bound.
Limits: a sample of pairs; the search for stacks is bounded (`MOST_STACKS`), and for each pair only
`MOST_TEXTS` separating stacks are led to. The engine's masks decide, so a pair that is found apart is apart.

Each pair gets one verdict:

- *apart*: a mask differs, so both classes are needed; walks did not come here;
- *hidden*: stacks that can be reached separate them, but in all configurations that were tried other stacks
  read the other token too;
- *unreachable*: stacks separate them, but no text leads to one (over-approximated stacks);
- *undecided*: the search for stacks met its bound;
- *alike*: no stack separates them (the other approximations of docs/theory.md, section 9).
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
import xgrammar
from numpy.typing import NDArray
from rich.table import Table

from bench import options, report, workloads
from bench.class_measure import Source, grammar_sources
from bench.directed import BOTTOM, Automata, Prefixes, Symbol
from bench.observed import Observed, directed_masks, walk_masks
from equivalence import Vocabulary
from equivalence.network import Network, build_network
from equivalence.network.reading import read_grammar

VERDICTS = ("apart", "hidden", "unreachable", "undecided", "alike")

MOST_STACKS = 4000
"""Stacks, partly known, that are looked at for one pair."""

MOST_TEXTS = 24
"""Separating stacks of one pair that are led to."""

READ, NOT_READ, OPEN = 1, 0, -1

Stack = tuple[int, tuple[Symbol, ...]]
"""A top and the symbols below it, topmost first; what lies below those is unknown unless `BOTTOM` is last."""


class Reader:
    """Reads tokens on stacks of which only the upper part is known."""

    def __init__(self, automata: Automata) -> None:
        self.automata = automata
        self._silent: dict[Stack, tuple[list[Stack], bool]] = {}
        self._answers: dict[tuple[Stack, bytes], int] = {}

    def answer(self, stack: Stack, token: bytes) -> int:
        """READ or NOT_READ whatever lies below the known part, or OPEN."""
        key = (stack, token)
        known = self._answers.get(key)
        if known is None:
            known = self._answers[key] = self._read(stack, token)
        return known

    def _read(self, stack: Stack, token: bytes) -> int:
        stacks, is_open = {stack}, False
        for byte in token:
            after: set[Stack] = set()
            for one in stacks:
                shown, pops = self._expand(one)
                is_open |= pops
                for top, below in shown:
                    after.update(
                        (target, below)
                        for low, high, target in self.automata.edges[top]
                        if low <= byte <= high
                    )
            stacks = after
            if not stacks:
                return OPEN if is_open else NOT_READ
        return READ

    def _expand(self, stack: Stack) -> tuple[list[Stack], bool]:
        """Stacks with byte edges after silent moves, and whether the unknown part may be on top."""
        known = self._silent.get(stack)
        if known is not None:
            return known
        automata = self.automata
        seen, todo, shown, pops = {stack}, [stack], [], False
        while todo:
            one = todo.pop()
            top, below = one
            if automata.edges[top]:
                shown.append(one)
            found: list[Stack] = []
            for callee, back in automata.calls[top]:
                base = below if back < 0 else ((back, 0), *below)
                if callee < 0:
                    base = ((callee - 1, 0), *base)
                found.append((automata.unit(callee), base))
            if automata.final[top]:
                returned, through = self._returns(below)
                found += returned
                pops |= through
            for new in found:
                if new not in seen:
                    seen.add(new)
                    todo.append(new)
        self._silent[stack] = shown, pops
        return shown, pops

    def _returns(self, below: tuple[Symbol, ...]) -> tuple[list[Stack], bool]:
        """What a dropped top shows, and whether that is the unknown part."""
        found: list[Stack] = []
        while below:
            (symbol, units), below = below[0], below[1:]
            if (symbol, units) == BOTTOM:
                return found, False
            if symbol >= 0:
                return [*found, (symbol, below)], False
            first, least, most = self.automata.counted[-2 - symbol]
            units = units + 1 if most >= 0 else min(units + 1, least)
            if most < 0 or units < most:
                found.append((first, ((symbol, units), *below)))
            if units < least:
                return found, False
        return found, True


class Stacks:
    """The stacks that a network thinks possible, symbol by symbol."""

    def __init__(self, network: Network, automata: Automata) -> None:
        self.automata = automata
        starts, symbols, sets = network.below_starts, network.below_symbols, network.below_of_symbol
        bounds = range(len(network.below_bottom))
        self._members = [
            list(zip(symbols[starts[k] : starts[k + 1]], sets[starts[k] : starts[k + 1]], strict=True))
            for k in bounds
        ]
        self._bottom = network.below_bottom
        self.tops: list[tuple[Stack, int]] = []
        for number, (symbol, unit) in enumerate(network.contexts.tolist()):
            of_context = network.context_below[
                network.context_starts[number] : network.context_starts[number + 1]
            ]
            for below in of_context.tolist():
                # a context whose top is a frame, or that knows the frame below it, is met as another's rest
                if symbol >= 0 and unit < 0:
                    self.tops.append(((symbol, ()), below))
                elif symbol >= 0:
                    self.tops += [((symbol, (frame,)), below) for frame in self._frames(unit)]

    def longer(self, stack: Stack, below: int) -> Iterator[tuple[Stack, int]]:
        """The stacks with one more known symbol."""
        top, symbols = stack
        if self._bottom[below]:
            yield (top, (*symbols, BOTTOM)), -1
        for symbol, rest in self._members[below]:
            if symbol >= 0:
                yield (top, (*symbols, (int(symbol), 0))), int(rest)
            else:
                for frame in self._frames(-1 - int(symbol)):
                    yield (top, (*symbols, frame)), int(rest)

    def _frames(self, counted: int) -> list[Symbol]:
        """Frames of a counted class with counts at which something may change."""
        _, least, most = self.automata.counted[counted]
        counts = {0, max(least - 1, 0), least, most - 1 if most > 0 else least + 1}
        return [(-2 - counted, units) for units in sorted(counts) if most < 0 or units < most]


class Separation:
    """The search for stacks, texts and masks that tell the pairs of one grammar apart."""

    def __init__(self, network: Network, compiled: Any, vocabulary: Vocabulary, seed: int) -> None:
        self.automata = Automata(network)
        self.stacks = Stacks(network, self.automata)
        self.reader = Reader(self.automata)
        self.prefixes = Prefixes(self.automata, seed)
        self.compiled = compiled
        self.bitmask = xgrammar.allocate_token_bitmask(1, vocabulary.size)
        self.ids = compiled.classes.representatives.astype(np.int64)
        self.tokens = [vocabulary.tokens[token_id] for token_id in self.ids.tolist()]
        self._texts: dict[Stack, bytes | None] = {}
        self._bits: dict[bytes, NDArray[np.bool_]] = {}

    def verdict(self, one: int, other: int) -> str:
        """What tells two classes apart."""
        tokens = self.tokens[one], self.tokens[other]
        reachable = unreachable = 0
        todo = deque(self.stacks.tops)
        looked_at = 0
        while todo and looked_at < MOST_STACKS and reachable < MOST_TEXTS:
            stack, below = todo.popleft()
            looked_at += 1
            answers = [self.reader.answer(stack, token) for token in tokens]
            if below < 0:
                # the bottom: what would have to be read below it is not read
                answers = [NOT_READ if answer == OPEN else answer for answer in answers]
            if OPEN in answers:
                todo.extend(self.stacks.longer(stack, below))
            elif answers[0] != answers[1]:
                text = self._text(stack)
                if text is None:
                    unreachable += 1
                    continue
                reachable += 1
                bits = self._mask(text)
                if bits[one] != bits[other]:
                    return "apart"
        if reachable:
            return "hidden"
        if todo:
            return "undecided"
        return "unreachable" if unreachable else "alike"

    def _text(self, stack: Stack) -> bytes | None:
        if stack not in self._texts:
            self._texts[stack] = self.prefixes.one(*stack)
        return self._texts[stack]

    def _mask(self, text: bytes) -> NDArray[np.bool_]:
        """Which classes may follow a text."""
        known = self._bits.get(text)
        if known is None:
            from hybrid import GrammarMatcher

            matcher = GrammarMatcher(self.compiled)
            if not matcher.accept_string(text):
                raise AssertionError(f"the engine refuses {text!r}, which the network leads to")
            matcher.fill_next_token_bitmask(self.bitmask)
            words = self.bitmask.numpy()[0].astype(np.int64)
            known = self._bits[text] = ((words[self.ids >> 5] >> (self.ids & 31)) & 1).astype(np.bool_)
        return known


def pairs_alike(part: NDArray[np.int64], pairs: int, seed: int) -> tuple[list[tuple[int, int]], int]:
    """A sample of the pairs of classes of equal number in `part`, and how many there are."""
    members: dict[int, list[int]] = {}
    for number, value in enumerate(part.tolist()):
        members.setdefault(value, []).append(number)
    every = [
        (one, other)
        for group in members.values()
        for place, one in enumerate(group)
        for other in group[place + 1 :]
    ]
    return random.Random(seed).sample(every, min(pairs, len(every))), len(every)


def separate(
    source: Source, vocabulary: Vocabulary, walks: int, walk_steps: int, pairs: int, depth: int, seed: int
) -> dict[str, Any]:
    """The row of one grammar."""
    grammar = source.parse()
    compiled = workloads.hybrid_compiler(vocabulary, "representatives", 1).compile_grammar(grammar)
    if compiled.classes.method != "explored":
        raise ValueError(f"{source.name} has classes by {compiled.classes.method}: {compiled.reason}")
    network = build_network(read_grammar(grammar), token_bytes=vocabulary.trie.longest)
    observed = Observed(compiled.classes, vocabulary.stop_token_ids)
    for words in walk_masks(compiled, vocabulary, range(1000 * seed, 1000 * seed + walks), walk_steps):
        observed.add(words)
    sample, alike = pairs_alike(observed.part, pairs, seed)
    row: dict[str, Any] = {
        "grammar": source.name,
        "classes": int(compiled.classes.n_classes),
        "bound": observed.bound,
        "pairs_alike": alike,
    }
    for words in directed_masks(compiled, vocabulary, network, depth, seed):
        observed.add(words)
    row["directed_bound"] = observed.bound
    separation = Separation(network, compiled, vocabulary, seed)
    verdicts = [separation.verdict(*pair) for pair in sample]
    row["verdicts"] = {name: Counter(verdicts)[name] for name in VERDICTS}
    found: dict[str, list[list[str]]] = {name: [] for name in VERDICTS}
    for pair, verdict in zip(sample, verdicts, strict=True):
        found[verdict].append([repr(separation.tokens[number]) for number in pair])
    row["examples"] = {name: examples[:20] for name, examples in found.items()}
    row["split"] = observed.split[:20]
    return row


def table(rows: Sequence[dict[str, Any]]) -> Table:
    """One line for each grammar."""
    shown = Table(title="pairs of classes that masks of walks treat alike", title_justify="left")
    shown.add_column("grammar")
    for column in ("classes", "walks", "directed", "pairs", *VERDICTS):
        shown.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        verdicts = row["verdicts"]
        counts = [row["classes"], row["bound"], row["directed_bound"], sum(verdicts.values())]
        shown.add_row(row["grammar"], *(f"{n:,}" for n in (*counts, *verdicts.values())))
    return shown


def command(
    vocabulary: options.VocabularyOption,
    json: options.RecordOption,
    grammars: Annotated[list[Path], typer.Option(help="GBNF file, or a folder; repeatable.", exists=True)],
    root: options.RootOption = "root",
    walks: options.WalksOption = 10,
    walk_steps: options.WalkStepsOption = 200,
    pairs: Annotated[int, typer.Option(min=1, help="Pairs of classes of each grammar.")] = 200,
    depth: options.DepthOption = 4,
    seed: options.SeedOption = 0,
) -> None:
    """Why there are more classes than masks of walks tell apart."""
    arguments = dict(locals())
    console = report.make_console()
    with workloads.usage_errors():
        sources = [source for source in grammar_sources(grammars, root, ()) if source.text is not None]
        words = workloads.load_vocabulary(vocabulary).prepare()
        rows = [separate(source, words, walks, walk_steps, pairs, depth, seed) for source in sources]
    report.write_json(json, {"benchmark": "separation", **report.environment(arguments), "rows": rows})
    console.print(table(rows))
    if any(row["split"] for row in rows):
        report.say(console, "DIFFERENCE: a mask is no union of classes")
        raise typer.Exit(1)
