"""Reading back the results of XGrammar's optimiser: the rules of a grammar, and their automata as arrays.

What: `optimised_grammar` gets the text of an optimised grammar (`equivalence.network.optimised`) and reads
it.
When: for automata that XGrammar makes itself (`equivalence.network.foreign`).
Limits: the layout of `equivalence.network.dialect`; others raise `GrammarError`.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence.network.dialect import refuse_other_layout
from equivalence.network.grammar_reader import integers_of
from equivalence.network.optimised import Wanted, text_of
from equivalence.network.serial import EDGE_DETAILS

_BEFORE_EDGES = '{"edges":{"data_":[['


class OptimisedGrammar(NamedTuple):
    """The result of XGrammar's optimiser for a grammar.

    Attributes:
        grammar: the grammar without its automata.
        rows: int64[E, 3], the edges of all automata: the first and the last byte, and the target; or a type
            (`equivalence.network.serial`), its argument, and the target.
        starts: int64[states + 1], where the edges of each state begin.
        details: integers that edges refer to.
    """

    grammar: dict[str, Any]
    rows: NDArray[np.int64]
    starts: NDArray[np.int64]
    details: list[int]


def optimised_grammar(wanted: Wanted) -> OptimisedGrammar | None:
    """XGrammar's optimised grammar; None: its automata are too large."""
    text = text_of(wanted)
    if text is None:
        return None
    grammar, complete = text.split("\n")
    rows = None
    if complete.startswith(_BEFORE_EDGES):  # nearly all of the text is edges
        begin, end = len(_BEFORE_EDGES), complete.index("]]")
        rows = integers_of(complete[begin:end].replace("],[", ","))
        complete = f"{complete[: begin - 1]}{complete[end + 1 :]}"
    read = json.loads(complete)
    if rows is None:
        rows = np.array(read["edges"]["data_"], np.int64)
    starts = np.array(read["edges"]["indptr_"], np.int64)
    features = json.loads(grammar)
    refuse_other_layout(features)
    return OptimisedGrammar(features, rows.reshape(-1, 3), starts, read[EDGE_DETAILS])
