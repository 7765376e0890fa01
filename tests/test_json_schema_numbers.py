"""Languages of numbers: which texts have values that satisfy bounds, divisors and lists of values.

What: combinations of conditions against exact fractions.
When: after a change of `hybrid.json_schema.languages.numbers`, `number_terms` or `residues`.
Limits: texts of few digits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hybrid.json_schema import grammar_of_schema
from hybrid.json_schema.formulas import Formulas
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


def combination(conditions: Sequence[Any], accept: Callable[[tuple[bool, ...]], bool]) -> tuple[Any, ...]:
    """Write a function of the truth of some conditions as a combination."""
    n = len(conditions)
    parts = [*conditions, *(("not", i) for i in range(n))]
    rows = [signs for signs in product((False, True), repeat=n) if accept(signs)]
    parts += [("and", *(i if sign else n + i for i, sign in enumerate(signs))) for signs in rows]
    return *parts, ("or", *range(2 * n, len(parts)))


@given(st.lists(atoms, min_size=1, max_size=3, unique=True), st.randoms(use_true_random=False))
@settings(max_examples=120, deadline=None)
def test_numbers_satisfy_their_bounds_exactly(drawn: list[Any], chance: Any) -> None:
    table = {signs: chance.random() < 0.5 for signs in product((False, True), repeat=len(drawn))}
    texts = number_texts(combination(drawn, table.__getitem__), 100_000)
    named = {value for kind, *given in drawn for value in (given[0] if kind == "among" else given)}
    for text in [*NUMBERS, *(shortest_text(sign * value) for value in named for sign in (1, -1))]:
        value = Fraction(text)
        expected = table[tuple(holds(condition, value) for condition in drawn)]
        assert texts.contains(shortest_text(value)) == expected
        assert expected or not texts.contains(text)


def test_bounds_at_0_may_exclude_all_numbers() -> None:
    zero = Fraction(0)
    above, not_below = ("gt", zero), ("ge", zero)
    assert number_texts((above, not_below, ("not", 1), ("and", 0, 2)), BOUND).is_empty
    below = number_texts((not_below, ("not", 0)), BOUND)
    assert [text for text in ("-1", "-0", "0", "1", "-0.5e3", "") if below.contains(text)] == ["-1", "-0.5e3"]


@given(
    st.lists(st.tuples(st.integers(-30, 30), st.integers(0, 20)), min_size=1, max_size=12),
    st.sampled_from(["and", "or", "one"]),
)
@settings(max_examples=60, deadline=None)
def test_operators_combine_ranges(drawn: list[tuple[int, int]], operator: str) -> None:
    parts: list[Any] = [("integer",)]
    for least, size in drawn:
        n = len(parts)
        parts += [
            ("ge", Fraction(least)),
            ("gt", Fraction(least + size)),
            ("not", n + 1),
            ("and", 0, n, n + 2),
        ]
    texts = number_texts((*parts, (operator, *range(4, len(parts), 4))), BOUND, True)
    for value in range(-40, 60):
        n = sum(least <= value <= least + size for least, size in drawn)
        assert texts.contains(str(value)) == {"and": n == len(drawn), "or": n > 0, "one": n == 1}[operator]


@pytest.mark.parametrize("n", [3, 30])
def test_listed_numbers_have_their_shortest_texts_under_any_number_of_conditions(n: int) -> None:
    formulas = Formulas()
    lists = [formulas.atom(("among", frozenset((Fraction(k), Fraction(1, 2))))) for k in range(n)]
    texts = Numbers(formulas, BOUND).texts(formulas.exactly_one(lists))
    assert texts.words(2 * n) == sorted(map(str, range(n)))


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
    formulas = Formulas()
    found = Numbers(formulas, BOUND)
    free, above = found.texts(formulas.true), found.texts(formulas.atom(("ge", Fraction(0))))
    below = found.texts(formulas.negation(formulas.atom(("gt", Fraction(7)))))
    whole = found.texts(formulas.atom(("integer",)))
    assert [one.contains("1e-5") for one in (free, above, below, whole)] == [True, True, False, False]
    assert [one.contains("1.0") for one in (free, above, below, whole)] == [True, True, True, False]
    assert [one.contains("-0") for one in (free, above, below, whole)] == [True, False, False, False]
    negative = found.texts(formulas.negation(formulas.atom(("gt", Fraction(0)))))  # or 0
    texts = ("0.0", "-1.50E+1", "-0.1", "-0", "-0.0", "-0e5")
    assert [negative.contains(text) for text in texts] == [True] * 3 + [False] * 3


def test_integers_beside_listed_ones_are_written_without_fractions() -> None:
    formulas = Formulas()
    found = Numbers(formulas, BOUND)

    def texts(value: Fraction) -> Any:
        listed = formulas.atom(("among", frozenset([Fraction(1), value])))
        return found.texts(formulas.disjunction([formulas.atom(("integer",)), listed]))

    integers, mixed = texts(Fraction(7)), texts(Fraction(5, 2))
    assert [integers.contains(text) for text in ("3", "7", "3.0", "7.00")] == [True, True, False, False]
    assert mixed.contains("2.5") and not mixed.contains("3.5")


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
    texts = number_texts(combination(atoms, lambda signs: any(signs) != is_negated), 50_000)
    assert texts.n_states < most_states
    near = [k * one + rest for one in divisors for k in (1, 7, 10**6) for rest in (-1, 0, 1)]
    for value in (*range(300), *near):
        expected = any(value % one == 0 for one in divisors) != is_negated
        assert texts.contains(str(value)) == texts.contains(f"-{value}" if value else "0") == expected, value
        assert texts.contains(f"{value}.00") == expected and texts.contains(f"{value}.5") == is_negated


def test_divisors_may_be_smaller_than_any_float() -> None:
    texts = number_texts((("multiple", Fraction(3, 10**330)),), BOUND)
    assert texts.contains("1.2" + "0" * 40) and texts.contains("0." + "0" * 328 + "12")
    assert not texts.contains("0." + "0" * 328 + "11") and not texts.contains("0." + "0" * 330 + "3")


def test_large_divisors_without_twos_and_fives_need_a_state_for_each_residue() -> None:
    for divisor in (1_000_003, 2**31 + 11):
        with pytest.raises(TooLarge):
            number_texts((("multiple", Fraction(divisor)),), 96_000)


def test_numbers_that_no_float_equals_may_be_unique_items() -> None:
    exact = "0.10000000000000000555"
    grammar = grammar_of_schema(f'{{"items": {{"enum": [{exact}, 2, true]}}, "uniqueItems": true}}')
    assert grammar.instances.text([2, Decimal(exact)]) == f"[2,{exact}]"
    assert grammar.instances.text([Decimal("0.1")]) is None
    assert grammar.instances.text([Decimal(exact), Decimal(exact)]) is None


@pytest.mark.parametrize("value", [float("inf"), float("nan"), Decimal("-Infinity"), Decimal("sNaN")])
def test_numbers_that_json_does_not_have_are_no_instances(value: Any) -> None:
    assert grammar_of_schema(True).instances.text([value]) is None
