"""What one item makes of a formula of arrays.

What: `after_item` says what becomes of each atom (`hybrid.json_schema.atoms`) once an item has come,
`may_end` whether nothing more has to.
When: for each state of an array (`arrays.py`, `conditional.py`).
Limits: whether items are equal is not told here.
"""

from __future__ import annotations

from hybrid.json_schema.atoms import count_atom, items_atom
from hybrid.json_schema.formulas import Formula, Formulas
from hybrid.json_schema.splitting import Condition


def may_end(formulas: Formulas, formula: Formula) -> bool:
    """Whether a formula of what is to come allows that nothing comes."""
    values = {atom: formulas.constant(atom.args[0] in ("items", "unique")) for atom in formula.atoms}
    return formulas.substitute(formula, values) is formulas.true


def after_item(formulas: Formulas, formula: Formula) -> tuple[dict[Formula, Formula], list[Condition]]:
    """What one item makes of each atom."""
    decided: dict[Formula, Formula] = {}
    conditions: list[Condition] = []
    for atom in sorted(formula.atoms, key=lambda one: one.number):
        kind = atom.args[0]
        if kind == "count":
            decided[atom] = count_atom(formulas, atom.args[1] - 1)
        elif kind == "contains":
            _, inner, least = atom.args
            fewer = formulas.atom("contains", inner, least - 1) if least > 1 else formulas.true
            conditions.append((atom, inner, fewer, atom))
        elif kind == "items":
            _, prefix, rest = atom.args
            inner, prefix = (prefix[0], prefix[1:]) if prefix else (rest, ())
            conditions.append((atom, inner, items_atom(formulas, prefix, rest), formulas.false))
    return decided, conditions
