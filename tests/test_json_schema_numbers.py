"""Languages of numbers: which texts have values that satisfy bounds, divisors and lists of values.

What: combinations of conditions against exact fractions; terms of conditions together, and automata apart.
When: after a change of `hybrid.json_schema.languages.numbers`, `number_terms` or `residues`.
Limits: texts of few digits.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hybrid.json_schema import grammar_of_schema
from hybrid.json_schema.formulas import Formulas
from hybrid.json_schema.languages import numbers
from hybrid.json_schema.languages.limits import TooLarge
from hybrid.json_schema.languages.numbers import holds, number_texts, shortest_text
from hybrid.json_schema.numbers import Numbers, common_step

pytestmark = pytest.mark.kernels

BOUND = 10_000

bounds = st.builds(Fraction, st.integers(-300, 300), st.sampled_from([1, 1, 10, 100]))
atoms = st.one_of(
    st.just(("integer",)),
    st.tuples(st.sampled_from(["ge", "gt"]), bounds),
    st.tuples(
        st.just("multiple"), st.sampled_from([Fraction(n, d) for n in (1, 3, 7) for d in (1, 2, 10, 4)])
    ),
    st.tuples(st.just("among"), st.frozensets(bounds, min_size=1, max_size=3)),
)
NUMBERS = [
    sign + whole + fraction
    for sign in ("", "-")
    for whole in ("0", "1", "5", "10", "12", "29", "100", "299", "300", "1000")
    for fraction in ("", ".0", ".5", ".05", ".10", ".25", ".125")
]


@given(st.lists(atoms, min_size=1, max_size=3, unique=True), st.randoms(use_true_random=False))
@settings(max_examples=120, deadline=None)
def test_numbers_satisfy_their_bounds_exactly(drawn: list[Any], chance: Any) -> None:
    table = {signs: chance.random() < 0.5 for signs in product((False, True), repeat=len(drawn))}
    texts = number_texts(drawn, table.__getitem__, 100_000)
    named = {value for kind, *given in drawn for value in (given[0] if kind == "among" else given)}
    for text in [*NUMBERS, *(shortest_text(sign * value) for value in named for sign in (1, -1))]:
        value = Fraction(text)
        expected = table[holds(drawn, value)]
        assert texts.contains(shortest_text(value)) == expected
        assert expected or not texts.contains(text)


def test_bounds_at_0_may_exclude_all_numbers() -> None:
    zero = Fraction(0)
    above_and_below = [("gt", zero), ("ge", zero)]
    assert number_texts(above_and_below, lambda signs: signs[0] and not signs[1], BOUND).is_empty
    below = number_texts(above_and_below, lambda signs: not signs[1], BOUND)
    assert [text for text in ("-1", "-0", "0", "1", "-0.5e3", "") if below.contains(text)] == ["-1", "-0.5e3"]


@pytest.mark.parametrize("integral", [False, True])
@given(drawn=st.lists(atoms, min_size=1, max_size=3, unique=True), chance=st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_conditions_together_and_apart_have_the_same_numbers(
    integral: bool, drawn: list[Any], chance: Any
) -> None:
    table = {signs: chance.random() < 0.5 for signs in product((False, True), repeat=len(drawn))}
    accepted = frozenset(signs for signs, holds_there in table.items() if holds_there)
    together = numbers._texts(tuple(drawn), accepted, 100_000, integral)
    assert together == numbers._product_of_minimal(tuple(drawn), table.__getitem__, 100_000, integral)


def test_integers_may_have_more_conditions_than_truth_tables() -> None:
    bounds = [("ge", Fraction(3 * i)) for i in range(65)]
    texts = number_texts(bounds, lambda signs: sum(signs) % 2 == 1, BOUND, True)
    for value in range(-3, 3 * len(bounds) + 3):
        expected = sum(value >= bound for _, bound in bounds) % 2 == 1
        assert texts.contains(str(value)) == expected, value


def test_divisors_with_a_long_period_are_written_without_fractions() -> None:
    formulas = Formulas()
    sevens, elevens, thirteens = (formulas.atom(("multiple", Fraction(one))) for one in (7, 11, 13))
    formula = formulas.conjunction((formulas.disjunction((sevens, elevens)), formulas.negation(thirteens)))
    texts = Numbers(formulas, 600).texts(formula)
    for value in range(-3000, 3000):
        expected = (value % 7 == 0 or value % 11 == 0) and value % 13 != 0
        assert texts.contains(str(value)) == expected, value
    assert not any(map(texts.contains, ["-0", "07", "7.0", "-"]))
    assert common_step(formulas, formula) == 1 and common_step(formulas, thirteens) == 13
    assert common_step(formulas, formulas.negation(thirteens)) is None
    quarters = formulas.atom(("multiple", Fraction(1, 4)))
    assert common_step(formulas, formulas.conjunction((sevens, quarters))) == 7
    with pytest.raises(TooLarge):
        Numbers(formulas, 600).texts(formulas.negation(formula))


def test_free_numbers_have_exponents_and_bounded_ones_do_not() -> None:
    free, above = number_texts([], all, BOUND), number_texts([("ge", Fraction(0))], all, BOUND)
    below = number_texts([("gt", Fraction(7))], lambda signs: not signs[0], BOUND)
    whole = number_texts([("integer",)], all, BOUND)
    assert [one.contains("1e-5") for one in (free, above, below, whole)] == [True, True, False, False]
    assert [one.contains("1.0") for one in (free, above, below, whole)] == [True, True, True, False]
    assert [one.contains("-0") for one in (free, above, below, whole)] == [True, False, False, False]
    negative = number_texts([("gt", Fraction(0))], lambda signs: not signs[0], BOUND)  # or 0
    texts = ("0.0", "-1.50E+1", "-0.1", "-0", "-0.0", "-0e5")
    assert [negative.contains(text) for text in texts] == [True] * 3 + [False] * 3


DIVISORS = [
    ([65_536], 3_000), ([100_000], 20), ([10**9], 20), ([3_600_000, 7], 200), ([12, 50], 30),
    ([2**14 * 3], 3_000),
]  # fmt: skip


@pytest.mark.parametrize(("divisors", "most_states"), DIVISORS)
@pytest.mark.parametrize("is_negated", [False, True])
def test_divisors_keep_what_later_digits_decide(
    divisors: list[int], most_states: int, is_negated: bool
) -> None:
    atoms = [("multiple", Fraction(one)) for one in divisors]
    texts = number_texts(atoms, lambda signs: any(signs) != is_negated, 50_000)
    assert texts.n_states < most_states
    near = [k * one + rest for one in divisors for k in (1, 7, 10**6) for rest in (-1, 0, 1)]
    for value in (*range(300), *near):
        expected = any(value % one == 0 for one in divisors) != is_negated
        assert texts.contains(str(value)) == texts.contains(f"-{value}" if value else "0") == expected, value
        assert texts.contains(f"{value}.00") == expected and texts.contains(f"{value}.5") == is_negated


def test_divisors_may_be_smaller_than_any_float() -> None:
    texts = number_texts([("multiple", Fraction(3, 10**330))], lambda signs: signs[0], BOUND)
    assert texts.contains("1.2" + "0" * 40) and texts.contains("0." + "0" * 328 + "12")
    assert not texts.contains("0." + "0" * 328 + "11") and not texts.contains("0." + "0" * 330 + "3")


def test_large_divisors_without_twos_and_fives_need_a_state_for_each_residue() -> None:
    for divisor in (1_000_003, 2**31 + 11):
        with pytest.raises(TooLarge):
            number_texts([("multiple", Fraction(divisor))], all, 96_000)


def test_numbers_that_no_float_equals_may_be_unique_items() -> None:
    exact = "0.10000000000000000555"
    grammar = grammar_of_schema(f'{{"items": {{"enum": [{exact}, 2, true]}}, "uniqueItems": true}}')
    assert grammar.instances.text([2, Decimal(exact)]) == f"[2,{exact}]"
    assert grammar.instances.text([Decimal("0.1")]) is None
    assert grammar.instances.text([Decimal(exact), Decimal(exact)]) is None


@pytest.mark.parametrize("value", [float("inf"), float("nan"), Decimal("-Infinity"), Decimal("sNaN")])
def test_numbers_that_json_does_not_have_are_no_instances(value: Any) -> None:
    assert grammar_of_schema(True).instances.text([value]) is None
