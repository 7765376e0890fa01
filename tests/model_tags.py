"""Structural tags of models that call tools: one for each family that XGrammar knows, and one of token ids.

What: `tag_of` makes the tag of a family for some tools; `path_of` draws tokens that a plain XGrammar matcher
accepts, through tags and the arguments of tools, so that masks can be compared along them.
When: in `tests.test_model_tags` over a small vocabulary, in `tests.robustness.model_tags` over a real one.
Limits: the families are those of the installed XGrammar.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import xgrammar
from xgrammar import builtin_structural_tag

from hybrid import Vocabulary
from hybrid.testing.mask_comparison import bits_of
from hybrid.testing.random_walk import Walker
from hybrid.testing.segmentation import tokenize_greedy

FAMILIES = tuple(builtin_structural_tag._structural_tag_registry)
OF_TOKENS = "tokens"
"""Not a family: the tags of this name begin and end with token ids."""

COMMON = ('"', '", "', "{}", "}", "1", ", ", " ", "</", "x", "<")


def parameters(number: int) -> dict[str, Any]:
    """The schema of a tool's arguments."""
    return {
        "type": "object",
        "properties": {
            "city": {"type": "string"}, f"n{number}": {"type": "integer"}, "unit": {"enum": ["c", "f"]},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["city", f"n{number}"], "additionalProperties": False,
    }  # fmt: skip


def tag_of(family: str, n_tools: int, reasoning: bool, ids: tuple[int, ...] = ()) -> str:
    """Return the tag of a family as JSON.

    Args:
        ids: only for `OF_TOKENS`: the tokens that begin and end a call, then those that begin and end
            reasoning.
    """
    if family != OF_TOKENS:
        tools = [
            {"type": "function", "function": {
                "name": f"tool_{i}", "description": "", "strict": True, "parameters": parameters(i)}}
            for i in range(n_tools)
        ]  # fmt: skip
        mode = "enabled" if reasoning else "disabled"
        made = builtin_structural_tag.get_model_structural_tag(family, tools, "auto", mode)
        return str(made.model_dump_json())
    begin, end, think, answer = ({"type": "token", "token": token_id} for token_id in ids)
    calls: dict[str, Any] = {
        "type": "token_triggered_tags", "trigger_tokens": [ids[0]], "exclude_tokens": list(ids[1:]),
        "tags": [
            {"type": "tag", "begin": begin, "end": end, "content": {"type": "json_schema", "json_schema": {
                "type": "object", "properties": {"name": {"const": f"tool_{i}"}, "arguments": parameters(i)},
                "required": ["name", "arguments"]}}}
            for i in range(n_tools)
        ],
    }  # fmt: skip
    if reasoning:
        thought = {"type": "tag", "begin": think, "end": answer, "content": {"type": "any_tokens"}}
        calls = {"type": "sequence", "elements": [thought, calls]}
    return json.dumps({"type": "structural_tag", "format": calls})


def pieces_of(tag: str) -> list[str | int]:
    """Return the texts and ids with which the parts of a tag begin and end, each once."""
    found: list[Any] = []
    waiting: list[Any] = [json.loads(tag)]
    for at in waiting:
        if isinstance(at, list):
            waiting += at
        elif isinstance(at, dict):
            waiting += [value for name, value in at.items() if name != "json_schema"]
            for name in ("begin", "end", "triggers", "value", "token"):
                found += at[name] if isinstance(at.get(name), list) else [at.get(name)]
    return list(dict.fromkeys(one for one in found if isinstance(one, (str, int)) and one != ""))


def path_of(plain: Any, tag: str, vocabulary: Vocabulary, rng: random.Random, steps: int) -> list[int]:
    """Draw tokens that plain XGrammar accepts from the start: forced ones, parts of the tag, and random
    ones."""
    matcher = xgrammar.GrammarMatcher(plain)
    bitmask = xgrammar.allocate_token_bitmask(1, vocabulary.size)
    stops = set(vocabulary.stop_token_ids)
    walker = Walker(rng, vocabulary.tokens, stops, 0.8)
    pieces = pieces_of(tag)
    path: list[int] = []

    def ways() -> Iterator[list[int]]:
        forced = matcher.find_jump_forward_string()
        if forced:
            yield tokenize_greedy(vocabulary, forced.encode())
        for piece in rng.sample(pieces, min(len(pieces), 12)) if rng.random() < 0.5 else ():
            yield [piece] if isinstance(piece, int) else tokenize_greedy(vocabulary, piece.encode())
        for text in rng.sample(COMMON, len(COMMON)) if rng.random() < 0.7 else ():
            yield tokenize_greedy(vocabulary, text.encode())

    while len(path) < steps:
        for tokens in ways():
            trial = matcher.fork()
            if all(trial.accept_token(token_id) for token_id in tokens):
                matcher, path = trial, path + tokens
                break
        else:
            matcher.fill_next_token_bitmask(bitmask)
            allowed = bits_of(bitmask[0], vocabulary.size)
            allowed[list(stops)] = False
            if not allowed.any():
                break
            token_id = walker.draw_from(allowed)
            if not matcher.accept_token(token_id):
                break
            path.append(token_id)
    return path
