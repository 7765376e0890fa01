"""From the layouts that versions of XGrammar serialise grammars in to the one that is read here, and back.

What: `own_layout` gives a serialised grammar, parsed by `json.loads`, in the layout of
`equivalence.network.serial`, "v16" of XGrammar 0.2.7 and later; `refuse_unread` refuses by name what this
layout has no place for; `written` gives the text that the XGrammar that is installed reads.
When: wherever a text of XGrammar's becomes a grammar of ours, or one of ours a text for XGrammar.
Limits: "v16", and "v20" of the previews 0.2.6rc1 and 0.2.6rc2. In a rule of "v20" the least and most
characters of a JSON string stand before the name to capture by, and a grammar says whether forced text is
given. Rules with such bounds, grammars that force nothing, and the three types of expressions that "v20" has
in addition are not read: they run in plain XGrammar, over the whole vocabulary.
"""

from __future__ import annotations

import json
from typing import Any

from equivalence.errors import GrammarError, UnsupportedGrammar
from equivalence.network import serial
from equivalence.network.dialect import refuse_other_meaning

OWN, PREVIEW = serial.SERIALIZATION_VERSION, "v20"
"""The layouts."""

UNREAD = "unread"
"""Field of our own: what of a grammar cannot be read, in words."""

_NO_FORCING = "no_forcing"
"""Field of "v20": whether `find_jump_forward_string` has no answers."""

_LENGTHS = slice(serial.CAPTURE, serial.CAPTURE + 2)
"""Columns of "v20": least and most characters of a JSON string, -1: no bound."""

_COLUMNS = serial.TEMPERATURE + 3
"""Of a rule in "v20"."""

_ADDED = ("intersections of expressions", "complements of expressions", "stop tokens inside of a text")
"""What the types from `serial.N_TYPES` on are in "v20"."""


def own_layout(features: dict[str, Any]) -> dict[str, Any]:
    """A serialised grammar, with or without its expressions, in the layout that is read here.

    What has that layout already is given back as it is; otherwise nothing of the argument changes.

    Raises:
        GrammarError: the layout is known to nobody, or is not what it says; or XGrammar is a later one that
            reads grammars otherwise.
    """
    version = features.get(serial.VERSION_FIELD)
    if version == OWN:
        refuse_other_meaning()
        return features
    if version != PREVIEW:
        raise GrammarError(
            f"XGrammar serialises grammars in version {version!r}, supported are {OWN!r} and {PREVIEW!r}; "
            "install xgrammar 0.2.7 or 0.2.8, or use strategy='engine'"
        )
    refuse_other_meaning()
    changed = {**features, serial.VERSION_FIELD: OWN}
    unread = "a grammar that forces no text" if changed.pop(_NO_FORCING, False) else ""
    rules = []
    for rule in features[serial.RULES]:
        if len(rule) != _COLUMNS or any(type(one) is not int for one in rule[_LENGTHS]):
            raise GrammarError(f"a rule of layout {PREVIEW!r} is {str(rule)[:200]}")
        if rule[_LENGTHS] != [-1, -1]:
            unread = f"rule {rule[serial.NAME]!r} bounds the characters of a JSON string"
        rules.append([*rule[: _LENGTHS.start], *rule[_LENGTHS.stop :]])
    changed[serial.RULES] = rules
    if unread:
        changed[UNREAD] = unread
    return changed


def refuse_unread(features: dict[str, Any], greatest: int) -> None:
    """Refuse what a grammar in our layout has no place for.

    Args:
        features: the grammar, as `own_layout` gives it.
        greatest: type of its expressions.

    Raises:
        UnsupportedGrammar: naming it.
    """
    unread = features.get(UNREAD, "")
    beyond = greatest - serial.N_TYPES
    if 0 <= beyond < len(_ADDED):
        unread = _ADDED[beyond]
    if unread:
        raise UnsupportedGrammar(f"{unread}; use strategy='engine'")


def written(grammar: dict[str, Any]) -> str:
    """A grammar in our layout as the text that `xgrammar.Grammar.deserialize_json` reads here."""
    import xgrammar

    if xgrammar.get_serialization_version() != PREVIEW:
        return json.dumps(grammar)
    rules = [[*rule[: _LENGTHS.start], -1, -1, *rule[_LENGTHS.start :]] for rule in grammar[serial.RULES]]
    changed = {**grammar, serial.RULES: rules, _NO_FORCING: False, serial.VERSION_FIELD: PREVIEW}
    return json.dumps(changed)
