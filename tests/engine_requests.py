"""What requests to real engines ask for, and drafts for them.

When: in tests of the adapters of vLLM and SGLang, with the engines or with stand-ins.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import pytest
import torch

from tests.matchers import ids_of, links

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 5},
        "tags": {"type": "array", "items": {"enum": ["ab", 1]}},
    },
    "required": ["name"],
    "additionalProperties": False,
}
LEGACY = {"structures": [{"begin": "<f>", "schema": SCHEMA, "end": "</f>"}], "triggers": ["<f"]}
"""A structural tag in its first form."""


WRONG_SETTINGS = [
    ("", "no", "must be 1 (the default) or 0"),
    ("", "", "must be 1 (the default) or 0"),
    ("_COMPILE_SECONDS", "two", "must be a positive number of seconds"),
    ("_COMPILE_SECONDS", "0", "must be a positive number of seconds"),
    ("_COMPILE_SECONDS", "inf", "must be a positive number of seconds"),
    ("_MASK_SECONDS", "0", "must be a positive number of seconds"),
    ("_TOKEN_LIMITS", "yes", "must be 0 (the default) or 1"),
    ("_DRAFTS", "yes", "must be 0 (the default) or 1"),
    ("_FORMATS", "yes", "must be 1 (the default) or 0"),
    ("_MAX_WHITESPACE", "yes", "must be an integer from 1 to 999999"),
]
"""Settings of both adapters that are errors at the start: what the variable's name ends with, its value, and
what the error says."""


def check_refusal(
    monkeypatch: Any, enabled: str, wrong: tuple[str, str, str], start: Callable[[], Any]
) -> None:
    """Assert that an engine with a wrong setting does not start, and that the error says why.

    Args:
        enabled: name of the variable that enables the adapter.
        wrong: a row of `WRONG_SETTINGS`.
    """
    name, value, said = enabled + wrong[0], *wrong[1:]
    monkeypatch.setenv(f"{enabled}_SEMANTICS", "json-schema")  # which has settings of its own
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError) as caught:
        start()
    assert str(caught.value).startswith(f"{name} {said}") and str(caught.value).endswith(f" is {value!r}")


def tags_of(begin: str, end: str, trigger: str) -> dict[str, Any]:
    """Return the format of a structural tag with `SCHEMA` between two texts."""
    content = {"type": "json_schema", "json_schema": SCHEMA}
    tags = [{"begin": begin, "content": content, "end": end}]
    return {"type": "triggered_tags", "triggers": [trigger], "tags": tags}


def guesses(matcher: Any, draw: Any, n: int, size: int) -> list[int]:
    """Return drafts that a matcher's grammar accepts, ignoring the token limit."""
    twin = matcher.fork()
    twin.limit_tokens(None)
    twin.has_failed = False
    found: list[int] = []
    row = torch.zeros((1, (size + 31) // 32), dtype=torch.int32)
    while len(found) < n and not twin.is_terminated():
        twin.fill_next_token_bitmask(row, 0)
        found.append(draw.choice(ids_of(row[0], size)))
        assert twin.accept_token(found[-1])
    return found


def draft_tree(
    grammar: Any, size: int, n: int, draw: Any, beyond: int = 0
) -> tuple[list[int], list[int], list[int]]:
    """Return a tree of drafts for a grammar object of SGLang, as first children, next siblings and tokens,
    most of them allowed.

    Args:
        beyond: how many ids that the vocabulary does not have may be drawn, too.
    """
    parents = [-1, *(draw.randrange(max(0, node - 4), node) for node in range(1, n))]
    tokens, mask = [0] * n, grammar.allocate_vocab_mask(size, 1, "cpu")

    def below(node: int) -> None:
        choices: list[int] = []
        if not grammar.is_terminated():
            mask.fill_(-1)
            grammar.fill_vocab_mask(mask, 0)
            choices = ids_of(mask[0], size)
        children = [child for child in range(n) if parents[child] == node]
        for child in children:
            is_allowed = choices and draw.random() < 0.8
            tokens[child] = draw.choice(choices) if is_allowed else draw.randrange(size + beyond)
        for child in children:
            if tokens[child] in choices:
                grammar.accept_token(tokens[child])
                below(child)
                grammar.rollback(1)

    below(0)
    return *links(parents), tokens


def cut_off(name: str, why: str = "") -> str:
    """Return the beginning of a notice to a request whose text is not completed."""
    return f"Request {name}: the text may be cut off at its token limit: {why}"


def fail(*_: object, **__: object) -> NoReturn:
    """Stand for a function that fails."""
    raise MemoryError("no room")
