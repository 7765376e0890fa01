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
from hybrid.values.once import made_once
from hybrid.xgrammar.tag_formats import formats_of, list_of

LISTS = ("exclude_tokens", "trigger_tokens")
"""Fields with lists of ids and strings."""


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
    for _, at in formats_of(tag):
        if at.get("type") == "token" and isinstance(at.get("token"), str):
            at["token"], found = _id_of(at["token"], vocabulary), True
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


@made_once
def _first_ids(vocabulary: Vocabulary) -> dict[bytes, int]:
    """The first id of each text. Searching the tokens takes 3 ms for each string, and a tag may have
    thousands."""
    return {text: number for number, text in reversed([*enumerate(vocabulary.tokens)])}
