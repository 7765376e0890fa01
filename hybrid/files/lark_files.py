"""Artefacts of Lark grammars: write the arrays of a factored classifier, and check them when read.

What: `arrays_of` returns the arrays of a compiled grammar, `classifier_of` makes a classifier from them.
When: by `hybrid.files.files`, for grammars from `GrammarCompiler.compile_lark`.
Limits: those of `hybrid.files.files`. Reading does not use Lark, so loading takes milliseconds, and building
takes seconds. Data that follows from other arrays (the place of a state in a list, the sets that a lexer
state asks for) is computed again.
"""

from __future__ import annotations

import json

import numpy as np
from numpy.typing import NDArray

from equivalence import TokenClasses, Vocabulary
from equivalence.lark.lalr import END
from hybrid.compiled import CompiledGrammar
from hybrid.files.checks import checked_starts, falls_within, taken
from hybrid.files.container import Arrays, malformed
from hybrid.guard.lark_serialisation import Terminal
from hybrid.lark import FactoredClassifier, Fixed, LarkGrammar, places_of, used_sets

AS_THEY_ARE = (
    "class_of_byte", "step", "emitted", "sequence", "action", "goto", "rule_length", "rule_origin",
    "top_kind", "color_list", "set_kind", "set_of", "stop_set", "alive_set",
)  # fmt: skip
LISTED = ("sequence", "top", "color", "set")
"""The members that are arrays of `Fixed`, and the lists of which members have the lengths."""

MOST_STATES = 1 << 20
MOST_LEXER_STATES = 1 << 16
MOST_EMITTED = 256
"""Most terminals that the lexer emits at once. It gives back at most 16 lexemes."""

MOST_PLACES = 1 << 26
"""Most pairs of a list of states and a state: each has an entry in a table."""

SKIP = (1 << 12) - 1


def text_of(grammar: LarkGrammar) -> bytes:
    """Return a grammar as bytes, in JSON."""
    return json.dumps(grammar).encode()


def grammar_of(text: bytes, n_terminals: int) -> LarkGrammar:
    """Return the grammar from the bytes that `text_of` has made.

    Raises:
        ArtifactError: they are something else, or the grammar has another number of terminals.
    """
    try:
        source, start, listed = json.loads(text)
        terminals = tuple(Terminal(*one) for one in listed)
    except (ValueError, TypeError, RecursionError) as error:
        raise malformed(f"its grammar cannot be read ({error})") from error
    if any([type(part) for part in one] != [str, str, bool, bool, bool] for one in terminals):
        raise malformed("its grammar has terminals of another form")
    if len(terminals) != n_terminals or type(source) is not str or type(start) is not str:
        raise malformed(f"its grammar has {len(terminals)} terminals instead of {n_terminals}, or no text")
    return LarkGrammar(source, start, terminals)


def arrays_of(compiled: CompiledGrammar) -> Arrays:
    """Return the arrays that a file has for a Lark grammar, besides its classes and its text."""
    assert isinstance(compiled.classifier, FactoredClassifier)
    fixed = compiled.classifier.fixed
    tops, top_skip = _split(fixed.top_outcome)
    colors, color_skip = _split(fixed.color_outcome)
    lists = [np.flatnonzero(row >= 0) for row in fixed.place]
    return {
        **{name: getattr(fixed, name) for name in AS_THEY_ARE},
        **{f"{name}_lengths": np.diff(getattr(fixed, f"{name}_start")) for name in LISTED},
        "top_color": tops,
        "top_skip": top_skip,
        "list_lengths": np.array([len(states) for states in lists], np.int64),
        "list_state": np.concatenate([np.empty(0, np.int64), *lists]),
        "color_after": colors,
        "color_skip": color_skip,
    }


def _split(outcome: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Split outcomes into the result (-2 dies, -1 taken, or a color) and the states to skip: two small
    numbers instead of a large one."""
    pending = outcome > 1
    color = np.where(pending, (outcome - 2) >> 12, outcome - 2)
    return color, np.where(pending, (outcome - 2) & SKIP, 0)


def _joined(color: NDArray[np.int64], skip: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.where(color >= 0, ((color << 12) | skip) + 2, color + 2)


def classifier_of(
    arrays: Arrays, classes: TokenClasses, vocabulary: Vocabulary, limit: int
) -> FactoredClassifier:
    """Make the classifier that arrays describe.

    Raises:
        ArtifactError: a number is out of range, or arrays do not fit together.
    """
    step = taken(arrays, "step", (None, None), -1, MOST_STATES, np.int32)
    n_lexer, n_bytes = step.shape
    if not 0 < n_lexer <= MOST_LEXER_STATES or int(step.max(initial=-1)) >= n_lexer:
        raise malformed(f"its lexer has {n_lexer} states, or leads to one that does not exist")
    class_of_byte = taken(arrays, "class_of_byte", (256,), 0, n_bytes - 1, np.uint8)
    rule_length = taken(arrays, "rule_length", (None,), 0, SKIP, np.int32)
    goto = taken(arrays, "goto", (None, None), -1, MOST_STATES, np.int32)
    n_states, n_nonterminals = goto.shape
    if n_states == 0 or int(goto.max(initial=-1)) >= n_states:
        raise malformed("its parser has no states, or goes to one that does not exist")
    rule_origin = taken(arrays, "rule_origin", rule_length.shape, 0, n_nonterminals - 1, np.int32)
    action = taken(arrays, "action", (n_states, None), -len(rule_length), n_states + 1, np.int32)
    if action.shape[1] == 0 or int(action[:, :-1].max(initial=0)) > n_states:
        raise malformed(f"its parser has no terminals, or a shift that only {END} may have")
    sequence = taken(arrays, "sequence", (None,), 0, action.shape[1] - 2, np.int32)
    sequence_start = _starts(arrays, "sequence_lengths", None, len(sequence))
    n_emitted = np.diff(sequence_start)
    if len(n_emitted) == 0 or n_emitted[0] or not n_emitted[1:].all():
        raise malformed("its first sequence of terminals is not the empty one, or another one is empty")
    if int(n_emitted.max()) > MOST_EMITTED:
        raise malformed(f"its lexer emits more than {MOST_EMITTED} terminals at once")
    emitted = taken(arrays, "emitted", step.shape, 0, len(sequence_start) - 2, np.int32)
    color_list = taken(arrays, "color_list", (None,), 0, MOST_STATES, np.int32)
    n_colors = len(color_list)
    set_kind = taken(arrays, "set_kind", (None,), -2, (1 << 24) - 1, np.int32)
    top_kind = taken(arrays, "top_kind", (None,), 0, (1 << 24) - 1, np.int32)
    if int(set_kind.max(initial=-1)) > int(top_kind.max(initial=0)) or -1 in set_kind:
        raise malformed("a set asks for a kind that no stack takes")
    if len(top_kind) and len(np.unique(top_kind)) != int(top_kind.max()) + 1:
        raise malformed("its kinds are not numbered without gaps")
    top_start = _starts(arrays, "top_lengths", n_states, len(top_kind))
    if falls_within(top_kind, top_start):
        raise malformed("the kinds of a state are not sorted")
    top_outcome = _outcomes(arrays, "top_color", "top_skip", len(top_kind), n_colors)
    list_state = taken(arrays, "list_state", (None,), 0, n_states - 1, np.int32)
    list_start = _starts(arrays, "list_lengths", None, len(list_state))
    if int(color_list.max(initial=-1)) >= len(list_start) - 1:
        raise malformed("a color has a list of states that does not exist")
    if falls_within(list_state, list_start):
        raise malformed("a list of states is not sorted")
    if (len(list_start) - 1) * n_states > MOST_PLACES:
        raise malformed(f"it has {len(list_start) - 1} lists of {n_states} states")
    color_outcome = _outcomes(arrays, "color_after", "color_skip", None, n_colors)
    color_start = _starts(arrays, "color_lengths", n_colors, len(color_outcome))
    if bool((np.diff(color_start) != np.diff(list_start)[color_list]).any()):
        raise malformed("a color does not say what follows on each state of its list")
    set_start = _starts(arrays, "set_lengths", None, len(set_kind))
    most = len(set_start) - 2
    if most < 0:
        raise malformed("it has no sets of kinds")
    set_of = taken(arrays, "set_of", (n_lexer, classes.n_classes), 0, most, np.int32)
    stop_set = taken(arrays, "stop_set", (n_lexer,), 0, most, np.int32)
    alive_set = taken(arrays, "alive_set", (n_lexer,), 0, most, np.int32)
    used_start, used = used_sets(set_of)
    fixed = Fixed(
        class_of_byte, step, emitted, sequence, sequence_start, action, goto, rule_length, rule_origin,
        top_start, top_kind, top_outcome, places_of(list_start, list_state, n_states), color_list,
        color_start, color_outcome,
        set_start, set_kind, set_of, stop_set, alive_set, used_start, used, *vocabulary.flat,
    )  # fmt: skip
    return FactoredClassifier(fixed, classes, vocabulary, limit)


def _starts(arrays: Arrays, name: str, rows: int | None, total: int) -> NDArray[np.int64]:
    return checked_starts(taken(arrays, name, (rows,), 0, total), total, name)


def _outcomes(arrays: Arrays, color: str, skip: str, rows: int | None, n_colors: int) -> NDArray[np.int64]:
    colors = taken(arrays, color, (rows,), -2, n_colors - 1)
    return _joined(colors, taken(arrays, skip, colors.shape, 0, SKIP))
