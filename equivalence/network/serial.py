"""Names for the numbers and fields of XGrammar's serialised grammars.

What: the version, the names of the fields, the types of expressions and the layout of their bodies, the
columns of a rule, and the types of edges of the automata that XGrammar's compiler adds.
When: whenever `xgrammar.Grammar.serialize_json` is read or written: here, in
`equivalence.network.features` and in `hybrid.xgrammar`. Support for a new version of the format starts
here.
Limits: only the layouts in `LAYOUTS`; `equivalence.network.dialect` says which of them the installed XGrammar
writes and reads, and refuses others.
`equivalence.classes.reference` has its own numbers, because a reference must share nothing with what it
checks.

An expression is [type, length, body ...] in one list of integers for the whole grammar. A second list says
where each expression begins. Expressions refer to others by their number in it. Bodies:

- `BYTES`: the bytes; `CLASS` and its star `STAR`: [whether it excludes, first, last, first, last ...];
- `EMPTY`: nothing; `RULE`: [rule]; `SEQUENCE` and `CHOICES`: the parts; `REPEAT`: [rule, least, most or -1];
- `TAGS`: [(bytes, rule) ..., loop, excluded]; `TOKEN_TAGS`: [n, (id, rule) n times, loop, m, id m times];
- `TOKENS` and `EXCLUDED`: the ids; `PATTERN`: [whether it is of a JSON string, character ...]; `SUBSTRING`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

VERSION_FIELD, DATA, STARTS = "__VERSION__", "grammar_expr_data", "grammar_expr_indptr"
"""Fields: the version; the expressions, and where each begins."""

RULES, ROOT, MARKERS, MAY_BE_EMPTY = "rules", "root_rule_id", "suffix_stop_infos", "allow_empty_rule_ids"
"""Fields: the rules; the number of the start rule; suffix and stop markers; rules that may be empty."""

AUTOMATA, AUTOMATA_OF_RULES, IS_COMPILED = "complete_fsm", "per_rule_fsms", "optimized"
"""Fields that XGrammar's compiler adds."""

HAS_TOKEN_EDGES = "has_token_edges"
"""Another one, from v18 on: whether an edge reads token ids."""

NOT_COMPILED: dict[str, Any] = {AUTOMATA: None, AUTOMATA_OF_RULES: [], IS_COMPILED: False}
"""The content of the fields that all layouts have before that."""

LAYOUTS: dict[str, dict[str, Any]] = {"v16": NOT_COMPILED, "v18": {**NOT_COMPILED, HAS_TOKEN_EDGES: False}}
"""The layouts of `xgrammar.Grammar.serialize_json`, with the fields that XGrammar's compiler adds to each,
and their content before: v16 of XGrammar 0.2.7 and 0.2.8, v18 of 0.2.9."""

EDGE_DETAILS = "edge_aux_data"
"""A field of the automata: additional data of edges."""

BYTES, CLASS, STAR, EMPTY, RULE, SEQUENCE, CHOICES = range(7)
TAGS, REPEAT, TOKENS, EXCLUDED, TOKEN_TAGS, PATTERN, SUBSTRING = range(7, 14)
"""Types of expressions."""

N_TYPES = 14
CLASSES, CALLS, WHOLES = (CLASS, STAR), (RULE, REPEAT), (SEQUENCE, CHOICES)
"""Types: sets of characters; types whose body begins with the one rule that they call; types that consist
of parts."""

TOKEN_TYPES = (TOKENS, EXCLUDED, TOKEN_TAGS)
"""Types that name token ids."""

TAG_TYPES = (TAGS, TOKEN_TAGS)
"""Types that call a rule for each tag."""

FOREIGN_TYPES = (TAGS, PATTERN, SUBSTRING)
"""Types whose automata only XGrammar can make."""

NAME, BODY, LOOKAHEAD, IS_EXACT, MAX_TOKENS, MAX_CHARS, CAPTURE, IS_LAZY, TEMPERATURE = range(9)
"""Columns of a rule. `BODY` and `LOOKAHEAD` are expressions; `IS_EXACT` describes the lookahead. -1, "" and
None mean that there is none."""

EDGE_EMPTY, EDGE_RULE, EDGE_REPEAT = -1, -2, -4
"""Types of edges that are supported, in place of the first byte of edges that read bytes: reads nothing;
calls a rule; a repeat, whose rule, least and most are in `EDGE_DETAILS`."""


def plain_rule(name: str, body: int) -> list[Any]:
    """A rule without bounds, captures and the like."""
    return [name, body, -1, False, -1, -1, "", False, None]


def called_rules(expression_type: int, body: Sequence[int]) -> Sequence[int]:
    """The rules that an expression calls itself, without those of its parts."""
    if expression_type in CALLS:
        return body[:1]
    if expression_type == TAGS:
        return body[1:-2:2]
    if expression_type == TOKEN_TAGS:
        return body[2 : 2 + 2 * body[0] : 2]
    return ()


def named_ids(expression_type: int, body: Sequence[int]) -> list[int]:
    """The positions in an expression's body that hold token ids."""
    if expression_type in (TOKENS, EXCLUDED):
        return list(range(len(body)))
    if expression_type == TOKEN_TAGS:
        triggers = range(1, 1 + 2 * body[0], 2)
        return [*triggers, *range(1 + 2 * body[0] + 2, len(body))]
    return []
