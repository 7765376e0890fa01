# cython: language_level=3
# mypy: ignore-errors
"""Conditions on numbers as terms.

What: `NumberTerms` makes the terms (`terms.py`) of the texts of numbers, and of combinations of conditions
(`hybrid.json_schema.languages.numbers`). A bound compares digit by digit, and the integer part by its length
first. A divisor keeps the residue of the digits so far (`residues.py`).
When: once for each combination.
Limits: the term of a condition may also have texts that are no numbers.
"""

from __future__ import annotations

from fractions import Fraction

import cython
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.hybrid.json_schema.languages.residues import Residue
from cython.cimports.hybrid.json_schema.languages.terms import (
    ALL_TEXTS,
    AND,
    EMPTY_TEXT,
    NO_TEXT,
    OR,
    Terms,
)

from hybrid.json_schema.languages import limits

check_source(__name__)

OPERATORS = frozenset(("and", "or", "one", "not"))
"""The kinds of parts that combine others; the other parts are conditions."""

MINUS, POINT, EXPONENT, SIGN = ((45, 45),), ((46, 46),), ((69, 69), (101, 101)), ((43, 43), (45, 45))


def digits_of(value: Fraction) -> tuple[str, str]:
    """Return the digits of a decimal's absolute value before and after the point, without leading and
    trailing zeros."""
    limits.check_deadline()
    places: object = 0
    denominator: object = value.denominator
    while denominator % 10 == 0:
        denominator //= 10
        places += 1
    while denominator % 2 == 0 or denominator % 5 == 0:
        denominator //= 2 if denominator % 2 == 0 else 5
        places += 1
    if denominator != 1:
        raise ValueError(f"{value} is not a finite decimal")
    digits = str(abs(value.numerator) * 10**places // value.denominator).rjust(places + 1, "0")
    whole, fraction = (digits[:-places], digits[-places:]) if places else (digits, "")
    return whole, fraction.rstrip("0")


@cython.final
@cython.cclass
class NumberTerms:
    """The terms of one combination of conditions.

    Args:
        terms: makes them.
        bound: the maximum number of states of a divisor.
    """

    terms: Terms
    bound: object
    digit: cython.Py_ssize_t
    digits: cython.Py_ssize_t  # any number of them
    zeros: cython.Py_ssize_t
    point: cython.Py_ssize_t
    minus: cython.Py_ssize_t

    def __init__(self, terms: Terms, bound: int) -> None:
        self.terms, self.bound = terms, bound
        self.minus, self.point = terms.chars(MINUS), terms.chars(POINT)
        self.digit = self.between(0, 9)
        self.digits = terms.repeat(self.digit, 0, None)
        self.zeros = terms.repeat(self.between(0, 0), 0, None)

    @cython.cfunc
    @cython.exceptval(-1)
    def between(self, first: cython.Py_ssize_t, last: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Return the term of one digit of a range."""
        return self.terms.chars(((48 + first, 48 + last),)) if first <= last else NO_TEXT

    @cython.cfunc
    @cython.exceptval(-1)
    def join(
        self, kind: cython.Py_ssize_t, one: cython.Py_ssize_t, other: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """Return the union or intersection of two terms."""
        begin = self.terms.n_stack
        self.terms.push(one)
        self.terms.push(other)
        return self.terms.join(kind, begin)

    @cython.cfunc
    @cython.exceptval(-1)
    def optional(self, one: cython.Py_ssize_t, other: cython.Py_ssize_t = EMPTY_TEXT) -> cython.Py_ssize_t:
        """Return the concatenation of two terms, or nothing."""
        return self.join(OR, EMPTY_TEXT, self.terms.cat(one, other))

    def numbers(self, integral: cython.bint, has_exponents: cython.bint) -> int:
        """Return the term of the texts of numbers, without a minus before a zero.

        Args:
            integral: whether they have no fraction.
            has_exponents: whether they may have an exponent.
        """
        terms: Terms = self.terms
        some_digits = terms.cat(self.digit, self.digits)
        found = self.join(OR, self.between(0, 0), terms.cat(self.between(1, 9), self.digits))
        if not integral:
            found = terms.cat(found, self.optional(self.point, some_digits))
        if has_exponents:
            sign = self.optional(terms.chars(SIGN))
            found = terms.cat(found, self.optional(terms.chars(EXPONENT), terms.cat(sign, some_digits)))
        nonzero = terms.cat(self.zeros, terms.cat(self.between(1, 9), ALL_TEXTS))
        nonzero = terms.cat(self.zeros, terms.cat(self.optional(self.point), nonzero))
        return self.join(OR, found, terms.cat(self.minus, self.join(AND, found, nonzero)))

    def satisfying(self, parts: tuple) -> int:
        """Return the term of the numbers that satisfy a combination of conditions
        (`hybrid.json_schema.languages.numbers`)."""
        found: list = []
        for part in parts:
            found.append(self.part(part, found))
        return found[len(found) - 1]

    @cython.cfunc
    @cython.exceptval(-1)
    def part(self, part: tuple, known: list) -> cython.Py_ssize_t:
        """Return the term of a part of a combination, given those of the parts before it."""
        terms: Terms = self.terms
        kind: str = part[0]
        if kind not in OPERATORS:
            return self.condition(part)
        of_parts: list = [known[i] for i in part[1:]]
        if kind == "not":
            return terms.complement(of_parts[0])
        if kind == "one":
            some, several = self.some_and_several(of_parts)
            return self.join(AND, some, terms.complement(several))
        return terms.join_all(AND if kind == "and" else OR, tuple(of_parts))

    @cython.cfunc
    def some_and_several(self, parts: list) -> tuple[cython.Py_ssize_t, cython.Py_ssize_t]:
        """Return the terms of numbers that satisfy at least one of some parts, and at least two."""
        if len(parts) == 1:
            return parts[0], NO_TEXT
        terms: Terms = self.terms
        middle: cython.Py_ssize_t = len(parts) // 2
        some, several = self.some_and_several(parts[:middle])
        some_others, several_others = self.some_and_several(parts[middle:])
        begin = terms.n_stack
        terms.push(several)
        terms.push(several_others)
        terms.push(self.join(AND, some, some_others))
        return self.join(OR, some, some_others), terms.join(OR, begin)

    @cython.cfunc
    @cython.exceptval(-1)
    def condition(self, condition: tuple) -> cython.Py_ssize_t:
        """Return the term of the numbers that satisfy a condition."""
        terms: Terms = self.terms
        kind: str = condition[0]
        if kind == "integer":
            whole = terms.cat(self.digits, self.optional(self.point, self.zeros))
            return terms.cat(self.optional(self.minus), whole)
        if kind == "multiple":
            places: object = len(digits_of(condition[1])[1])
            divisor: Residue = Residue(int(condition[1] * 10**places), places)
            if divisor.size > self.bound:
                raise limits.TooLarge(self.bound)
            return terms.cat(self.optional(self.minus), terms.multiple(divisor))
        begin = terms.n_stack
        if kind == "among":
            for value in condition[1]:
                _, equal = self.compared(value)
                terms.push(terms.cat(self.minus, equal) if value < 0 else equal)
            return terms.join(OR, begin)
        value = condition[1]
        is_below: cython.bint = value < 0 or (not value and kind == "ge")  # no zero has a minus
        found, equal = self.compared(value)
        if (kind == "ge") != is_below:
            found = self.join(OR, found, equal)
        return terms.complement(terms.cat(self.minus, found)) if is_below else found

    @cython.cfunc
    def compared(self, value: object) -> tuple[cython.Py_ssize_t, cython.Py_ssize_t]:
        """Return the terms of numbers without a minus that are greater than a decimal's absolute value, and
        that equal it."""
        terms: Terms = self.terms
        whole: str
        fraction: str
        whole, fraction = digits_of(value)
        digit: cython.Py_ssize_t
        equal = self.zeros
        greater = terms.cat(self.zeros, terms.cat(self.between(1, 9), ALL_TEXTS))
        for letter in reversed(fraction):
            digit = int(letter)
            this = self.between(digit, digit)
            equal = terms.cat(this, equal)
            greater = self.join(
                OR, terms.cat(self.between(digit + 1, 9), ALL_TEXTS), terms.cat(this, greater)
            )
        equal = terms.cat(self.point, equal) if fraction else self.optional(self.point, equal)
        as_long = ALL_TEXTS  # what follows a digit that is greater than the decimal's
        longer = terms.cat(self.digit, ALL_TEXTS)  # and smaller
        greater = self.join(OR, terms.cat(self.point, greater), longer)
        for letter in reversed(whole):
            digit = int(letter)
            this = self.between(digit, digit)
            equal = terms.cat(this, equal)
            begin = terms.n_stack
            terms.push(terms.cat(self.between(digit + 1, 9), as_long))
            terms.push(terms.cat(this, greater))
            terms.push(terms.cat(self.between(0, digit - 1), longer))
            greater = terms.join(OR, begin)
            as_long, longer = terms.cat(self.digit, as_long), terms.cat(self.digit, longer)
        return greater, equal
