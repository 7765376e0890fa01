"""Layouts of serialised grammars: from those of several versions of XGrammar to the one that is read here,
and back.

What: `own_layout` converts a serialised grammar, parsed by `json.loads`, to the layout of
`equivalence.network.serial`, "v16" of XGrammar 0.2.7 and later. `refuse_unread` refuses by name what this
layout cannot express. `written` gives the text that the installed XGrammar reads.
When: whenever a text of XGrammar becomes a grammar here, or a grammar becomes a text for XGrammar.
Limits: "v16", and "v20" of the previews 0.2.6rc1 and 0.2.6rc2. In "v20", a rule has bounds on the
characters of a JSON string before the name of its capture, and a grammar says whether forced text is given.
Rules with such bounds, grammars that force nothing, and the three additional types of expressions of "v20"
are not read: they run in plain XGrammar, over the whole vocabulary.
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
"""A field of our own: what in a grammar cannot be read, in words."""

_NO_FORCING = "no_forcing"
"""A field of "v20": whether `find_jump_forward_string` gives no answers."""

_LENGTHS = slice(serial.CAPTURE, serial.CAPTURE + 2)
"""Columns of "v20": bounds on the characters of a JSON string; -1: none."""

_COLUMNS = serial.TEMPERATURE + 3
"""Columns of a rule in "v20"."""

_ADDED = ("intersections of expressions", "complements of expressions", "stop tokens inside of a text")
"""The meaning of the types from `serial.N_TYPES` on in "v20"."""


def own_layout(features: dict[str, Any]) -> dict[str, Any]:
    """A serialised grammar, with or without its expressions, in the layout that is read here.

    A grammar that has this layout is returned unchanged; otherwise the argument is not modified.

    Raises:
        GrammarError: the layout is unknown, or not what it claims to be; or a later XGrammar is installed,
            which reads grammars differently.
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
    """Refuse what a grammar in our layout cannot express.

    Args:
        features: the result of `own_layout`.
        greatest: the greatest type of its expressions.

    Raises:
        UnsupportedGrammar: the message names it.
    """
    unread = features.get(UNREAD, "")
    beyond = greatest - serial.N_TYPES
    if 0 <= beyond < len(_ADDED):
        unread = _ADDED[beyond]
    if unread:
        raise UnsupportedGrammar(f"{unread}; use strategy='engine'")


def written(grammar: dict[str, Any]) -> str:
    """A grammar in our layout as text for the `xgrammar.Grammar.deserialize_json` that is installed."""
    import xgrammar

    if xgrammar.get_serialization_version() != PREVIEW:
        return json.dumps(grammar)
    rules = [[*rule[: _LENGTHS.start], -1, -1, *rule[_LENGTHS.start :]] for rule in grammar[serial.RULES]]
    changed = {**grammar, serial.RULES: rules, _NO_FORCING: False, serial.VERSION_FIELD: PREVIEW}
    return json.dumps(changed)
