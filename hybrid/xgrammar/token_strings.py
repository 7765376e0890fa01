"""Replace strings that stand for tokens in structural tags by token ids.

What: `with_token_ids` replaces each string by the first id with the same bytes, as XGrammar's own compiler
does. In grammars in XGrammar's dialect of Lark (since 0.2.9), it replaces named tokens by all ids with their
text. XGrammar's parser of tags has no tokenizer and accepts ids only.
When: by `hybrid.compile.request`, before a tag is parsed.
Limits: data that is not a tag in the form of XGrammar's documentation is left unchanged, and XGrammar refuses
it.
"""

from __future__ import annotations

import json
import re
from typing import Any

from equivalence import GrammarError, Vocabulary
from hybrid.values.once import made_once
from hybrid.xgrammar.tag_formats import formats_of, list_of

LISTS = ("exclude_tokens", "trigger_tokens")
"""Fields with lists of ids and strings."""

_IN_LARK = re.compile(
    r"""
    "(?:\\.|[^"\\\n])*"? | (?://|\#)[^\n]* | /(?:\\.|[^/\\\n])+/?
    | (?P<any><\[\*\]>) | (?P<named><(?!\[)[^<>\s]+>)
    """,
    re.VERBOSE,
)
"""Finds names of tokens in a Lark grammar, and what may contain the same characters: strings, comments and
patterns. One without an end goes to the end of its line, so that nothing is read twice."""


def with_token_ids(text: Any, vocabulary: Vocabulary) -> Any:
    """Return a structural tag with ids in place of strings that stand for tokens.

    Args:
        text: JSON text; anything else is returned unchanged.
        vocabulary: the vocabulary in which the strings are looked up.

    Raises:
        GrammarError: a string is not the text of any token, or it is empty. XGrammar's own compiler allows an
            empty string only as a rule of a token dispatch.
    """
    if not isinstance(text, str) or '"' not in text or not ("token" in text or "lark" in text):
        return text
    try:
        tag = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return json.dumps(tag) if _replace(tag, vocabulary) else text


def _replace(tag: Any, vocabulary: Vocabulary) -> bool:
    """Replace strings in place. Return whether there were any."""
    found = False
    for _, at in formats_of(tag):
        if at.get("type") == "token" and isinstance(at.get("token"), str):
            at["token"], found = _id_of(at["token"], vocabulary), True
        grammar = at.get("grammar")
        if at.get("type") == "grammar" and at.get("syntax") == "lark" and isinstance(grammar, str):
            at["grammar"] = _IN_LARK.sub(lambda place: _ids_in_lark(place, vocabulary), grammar)
            found = found or at["grammar"] != grammar
        for name in LISTS:
            for place, token in enumerate(list_of(at.get(name))):
                if isinstance(token, str):
                    at[name][place], found = _id_of(token, vocabulary), True
        for rule in list_of(at.get("rules")) if at.get("type") == "token_dispatch" else ():
            if isinstance(rule, list) and len(rule) == 2 and isinstance(rule[0], str):
                rule[0], found = _id_of(rule[0], vocabulary, may_be_empty=True), True
    return found


def _id_of(token: str, vocabulary: Vocabulary, may_be_empty: bool = False) -> int:
    if not token and not may_be_empty:
        raise GrammarError("the structural tag names an empty string as a token; name an id")
    found = _first_ids(vocabulary).get(token.encode("utf-8", "surrogatepass"))
    if found is None:
        raise GrammarError(
            f"the structural tag names the token {token[:100]!r}, but no id of the vocabulary has this "
            "text; name an id"
        )
    return found


def _ids_in_lark(place: re.Match[str], vocabulary: Vocabulary) -> str:
    """The ids for a place that `_IN_LARK` has found, in the form of the dialect; unchanged if it has none."""
    if place["any"]:
        return f"<[0-{vocabulary.size - 1}]>"
    ids = (
        _ids_in_brackets(vocabulary).get(place[0].encode("utf-8", "surrogatepass"))
        if place["named"]
        else None
    )
    return f"<[{','.join(map(str, ids))}]>" if ids else place[0]


@made_once
def _ids_in_brackets(vocabulary: Vocabulary) -> dict[bytes, list[int]]:
    """All ids of each text that is written in angle brackets."""
    found: dict[bytes, list[int]] = {}
    for number, text in enumerate(vocabulary.tokens):
        if text[:1] == b"<" and text[-1:] == b">":
            found.setdefault(text, []).append(number)
    return found


@made_once
def _first_ids(vocabulary: Vocabulary) -> dict[bytes, int]:
    """The first id of each text. Searching the tokens takes 3 ms for each string, and a tag may have
    thousands."""
    return {text: number for number, text in reversed([*enumerate(vocabulary.tokens)])}
