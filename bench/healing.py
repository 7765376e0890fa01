"""Healed prompts: masks of what is left of a prompt, compared with a slow filter of all tokens by bytes.

What: prompts are beginnings of documents, cut at every byte of their last two tokens, and healed by one and
by two tokens. A mask for each remainder, also after each further byte, is compared with a filter that checks
every token of the vocabulary: whether it spells a part of what is left, or all of it and then a text that a
new matcher accepts.
When: ``python -m bench healing --document FILE --vocabulary FOLDER --json FILE``.
Limits: the filter makes a new matcher for each token that goes beyond what is left. Each remainder is tested
once. Exits with status 1 if a mask differs.
"""

from __future__ import annotations

import random
from pathlib import Path
from time import process_time
from typing import Annotated, Any

import numpy as np
import typer
from rich.progress import track

from bench import options, report, workloads
from bench.documents import read_documents
from bench.reference import Reference, opened
from bench.report import Spread
from bench.reporting.answers import publish
from hybrid import CompiledGrammar, GrammarCompiler, GrammarMatcher, Vocabulary, allocate_token_bitmask
from hybrid.healing import HealingMatcher, heal
from hybrid.testing.mask_comparison import bits_of

GRAMMARS = {
    "words": r"root ::= [ ]? word ([ ] word)* [.\n]" + "\nword ::= [a-zA-Z]+",
    "anything but braces": "root ::= [^{}]*",
    "object": r'root ::= [ \n]* "{" [ \n]* "\"" [a-z]+ "\"" [ ]? ":" [ ]? [0-9]+ "}"',
}

KINDS = ("classifier", "representatives", "engine")


def by_first_byte(vocabulary: Vocabulary) -> list[list[tuple[int, bytes]]]:
    """For each byte, list the ids whose texts begin with it, without stop tokens."""
    found: list[list[tuple[int, bytes]]] = [[] for _ in range(256)]
    stops = set(vocabulary.stop_token_ids)
    for token, text in enumerate(vocabulary.tokens):
        if text and token not in stops:
            found[text[0]].append((token, text))
    return found


def slow_mask(compiled: CompiledGrammar, texts: list[list[tuple[int, bytes]]], left: bytes) -> np.ndarray:
    """Compute the mask by filtering all tokens by bytes, with a new matcher for each token: bool[V]."""
    found = np.zeros(compiled.vocabulary.size, np.bool_)
    for token, text in texts[left[0]]:  # all others begin with another byte
        if left.startswith(text):
            found[token] = True
        elif text.startswith(left):
            found[token] = GrammarMatcher(compiled).accept_string(text[len(left) :])
    return found


def command(
    vocabulary: options.VocabularyOption,
    document: Annotated[list[Path], typer.Option(help="A file or a folder; repeatable.", exists=True)],
    json: options.RecordOption,
    prompts: Annotated[int, typer.Option(min=1)] = 200,
    seed: options.SeedOption = 0,
) -> None:
    """Compare masks after healed prompts with a slow filter."""
    arguments = dict(locals())
    console, used = opened(vocabulary)
    with workloads.usage_errors():
        lefts = lefts_of(used, document, prompts, random.Random(seed))
    texts = by_first_byte(used.vocabulary)
    report.say(console, f"{prompts} prompts, {len(lefts):,} different rests to be spelled")
    rows: list[dict[str, Any]] = []
    bitmask = allocate_token_bitmask(1, used.vocabulary.size)
    for name, text in GRAMMARS.items():
        expected: dict[bytes, np.ndarray] = {}
        for kind in KINDS:
            compiled = GrammarCompiler(used.vocabulary, strategy=kind).compile_grammar(text)
            wrong = 0
            times: dict[str, list[float]] = {"new": [], "kept": []}
            for left in track(sorted(lefts), f"{name}, {kind}", console=console, transient=True):
                if left not in expected:
                    expected[left] = slow_mask(compiled, texts, left)
                for seconds in times.values():
                    began = process_time()
                    HealingMatcher(compiled, left).fill_next_token_bitmask(bitmask)
                    seconds.append(process_time() - began)
                wrong += not np.array_equal(bits_of(bitmask[0], used.vocabulary.size), expected[left])
            new, kept = (Spread.of(values) for values in times.values())
            found = {"grammar": name, "strategy": kind, "masks": len(lefts), "different": wrong}
            rows.append(found | {"new": new, "kept": kept})
    publish(console, json, "healing", arguments, {"rows": rows}, not any(row["different"] for row in rows))


def lefts_of(used: Reference, document: list[Path], prompts: int, rng: random.Random) -> set[bytes]:
    """Return what is left to be spelled after all cuts of all prompts, at the start and after each further
    byte."""
    texts = [text.decode("utf-8", "ignore") for _, text in read_documents(document)]
    found: set[bytes] = set()
    tokens = used.vocabulary.tokens
    for _ in range(prompts):
        text = rng.choice(texts)
        end = rng.randrange(1, len(text) + 1)
        prompt = text[max(0, end - 400) : end]
        ids, data = used.ids(prompt), prompt.encode()
        last = sum(len(tokens[token]) for token in ids[-2:])
        for cut in range(len(data) - last + 1, len(data) + 1):
            begun = used.ids(data[:cut].decode("utf-8", "ignore"))
            # after a cut inside of a character, the bytes of that character must be spelled, too
            missing = data[sum(len(tokens[token]) for token in begun) : cut]
            for many in (1, 2):
                left = heal(begun, used.vocabulary, tokens=many).prefix + missing
                found |= {left[at:] for at in range(len(left))}
    return found
