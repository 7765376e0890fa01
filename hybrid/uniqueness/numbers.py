"""Texts of numbers.

What: `number` is equal for all texts of one number, and `shortest` is one of them. `number_at_end` and
`without_fraction` find the number at the end of an unfinished text.
When: to compare items and keys that must not be repeated.
"""

from __future__ import annotations

from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal

_EXACT = Context(prec=MAX_PREC, Emin=MIN_EMIN, Emax=MAX_EMAX)
"""Adds exponents of any length; Python's integers are read only up to 4,300 digits."""

MOST_SPELLED = 64
"""The largest exponent that becomes digits."""

IN_NUMBER = "0123456789.eE+-"


def number(text: str) -> tuple[str, str, str]:
    """Return a key that is equal for all texts of the same number: the digits without zeros around them, and
    an exponent.

    Python's numbers would be enough, except for numbers such as `1e999999999`. Exponents may have any length.
    """
    if text.isdecimal():  # most numbers
        digits = text.lstrip("0")
        short = digits.rstrip("0")
        return ("number", short, str(len(digits) - len(short))) if short else ("number", "0", "0")
    mantissa, _, power = text.lower().partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return "number", "0", "0"
    short = digits.rstrip("0")
    exponent = _EXACT.add(Decimal(power or "0"), len(digits) - len(short) - len(fraction))
    return "number", sign + short, f"{exponent:f}"


def shortest(text: str) -> str:
    """Return the shortest spelling of a number without an exponent, unless that would be long."""
    if text.isdecimal():
        return text  # most numbers
    _, digits, power = number(text)
    if Decimal(power).copy_abs() > MOST_SPELLED:
        return f"{digits}e{power}"
    return f"{Decimal(f'{digits}e{power}'):f}"


def number_at_end(begun: str) -> tuple[str, str]:
    """Divide an unfinished item into what stands before a number at its end, and this number."""
    before = begun.rstrip(IN_NUMBER)
    return before, begun[len(before) :]


def without_fraction(begun: str) -> str:
    """Return an unfinished item without the number at its end if that has a fraction or an exponent: it may
    be equal to a number that begins differently."""
    before, digits = number_at_end(begun)
    return before if any(letter in digits for letter in ".eE") else begun
