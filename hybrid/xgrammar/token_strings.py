"""Replace strings that stand for tokens in structural tags by token ids.

What: `with_token_ids` replaces each string by the first id with the same bytes, as XGrammar's own compiler
does. XGrammar's parser of tags has no tokenizer and accepts ids only.
When: by `hybrid.compile.request`, before a tag is parsed.
Limits: data that is not a tag in the form of XGrammar's documentation is left unchanged, and XGrammar refuses
it.
"""

from __future__ import annotations

import json
from typing import Any

from equivalence import GrammarError, Vocabulary

LISTS = ("exclude_tokens", "trigger_tokens")
"""Fields with lists of ids and strings."""

FORMATS = ("format", "content", "begin", "end")
"""Fields that contain a format. Other fields, such as a JSON schema, may contain anything under the same
names."""

LISTS_OF_FORMATS = ("elements", "tags")


def with_token_ids(text: Any, vocabulary: Vocabulary) -> Any:
    """Return a structural tag with ids in place of strings that stand for tokens.

    Args:
        text: JSON text; anything else is returned unchanged.
        vocabulary: the vocabulary in which the strings are looked up.

    Raises:
        GrammarError: a string is not the text of any token, or it is empty. XGrammar's own compiler allows an
            empty string only as a rule of a token dispatch.
    """
    if not isinstance(text, str) or '"' not in text or "token" not in text:
        return text
    try:
        tag = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return json.dumps(tag) if _replace(tag, vocabulary) else text


def _replace(tag: Any, vocabulary: Vocabulary) -> bool:
    """Replace strings in place. Return whether there were any."""
    found = False
    waiting = [tag]
    while waiting:
        at = waiting.pop()
        if not isinstance(at, dict):
            continue
        if at.get("type") == "token" and isinstance(at.get("token"), str):
            at["token"], found = _id_of(at["token"], vocabulary), True
        for name in LISTS:
            for place, token in enumerate(_list(at.get(name))):
                if isinstance(token, str):
                    at[name][place], found = _id_of(token, vocabulary), True
        for rule in _list(at.get("rules")):
            if isinstance(rule, list) and len(rule) == 2:
                waiting.append(rule[1])
                if at.get("type") == "token_dispatch" and isinstance(rule[0], str):
                    rule[0], found = _id_of(rule[0], vocabulary, may_be_empty=True), True
        waiting.extend(at.get(name) for name in FORMATS)
        for name in LISTS_OF_FORMATS:
            waiting.extend(_list(at.get(name)))
    return found


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _id_of(token: str, vocabulary: Vocabulary, may_be_empty: bool = False) -> int:
    if not token and not may_be_empty:
        raise GrammarError("the structural tag names an empty string as a token; name an id")
    text = token.encode("utf-8", "surrogatepass")
    try:
        return vocabulary.tokens.index(text)
    except ValueError:
        raise GrammarError(
            f"the structural tag names the token {token[:100]!r}, but no id of the vocabulary has this "
            "text; name an id"
        ) from None
