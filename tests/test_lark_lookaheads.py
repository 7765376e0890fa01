"""The look-aheads of `hybrid.guard.lark_lookaheads` against those of Lark's own analysis."""

from __future__ import annotations

import random

import lark
import numpy as np
import pytest

from equivalence.errors import GrammarError
from equivalence.lark.lalr import read_machine
from equivalence.lark.lexer.scanner import terminal_names
from hybrid.cli.shipped_grammars import shipped_grammar
from hybrid.guard.lark_construction import read
from hybrid.guard.lark_lookaheads import close
from tests.lark_machines import SHIPPED, SMALL, random_text


def check(text: str) -> bool:
    """Compare the parse tables of a grammar. Return whether Lark takes it."""
    try:
        larks = lark.Lark(text, parser="lalr", lexer="basic")
    except lark.exceptions.LarkError as error:
        said = str(error).partition("\n")[0].partition(" in ")[0]
        with pytest.raises(GrammarError) as caught:
            read(text, "start")
        assert said in str(caught.value)
        return False
    wanted, found = (read_machine(one, tuple(terminal_names(one))) for one in (larks, read(text, "start")))
    for name in wanted._fields:
        assert np.array_equal(getattr(found, name), getattr(wanted, name)), name
    return True


@pytest.mark.parametrize("name", [*SMALL, *SHIPPED])
def test_tables_are_those_of_lark(name: str) -> None:
    assert check(SMALL[name].text if name in SMALL else shipped_grammar(name).text)


def test_tables_of_random_grammars_are_those_of_lark() -> None:
    rng = random.Random(1)
    assert 100 < sum(check(random_text(rng)) for _ in range(400)) < 400


def test_sets_are_closed_along_any_relation() -> None:
    rng = random.Random(2)
    for _ in range(300):
        n = rng.randint(0, 12)
        relation = [[rng.randrange(n) for _ in range(rng.choice([0, 1, 1, 2, 3]))] for _ in range(n)]
        sets = [1 << i for i in range(n)]
        wanted = list(sets)
        for _ in range(n):
            for i in range(n):
                for other in relation[i]:
                    wanted[i] |= wanted[other]
        close(sets, relation)
        assert sets == wanted
