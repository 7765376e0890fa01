"""From a schema to its grammar: the interface of this package for compilers, matchers and tests.

What: `grammar_of_schema` turns a schema into a `SchemaGrammar`.
When: for each compile call with ``semantics="json-schema"``.
Limits: a schema that cannot be exact within the bounds is refused, naming the keyword (`SchemaRefused`); on
request, the keyword is left out and named instead.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from functools import cached_property
from typing import Any, NamedTuple

import xgrammar

from equivalence import forks
from equivalence.deadline import Deadline
from equivalence.errors import BudgetExceeded
from equivalence.network.grammar_reader import ParsedGrammar
from hybrid.json_schema.arrays import bound_unique, build_array
from hybrid.json_schema.assertions import Assertions
from hybrid.json_schema.automata import Nonterminal
from hybrid.json_schema.dialects import dialect_of
from hybrid.json_schema.ebnf import ebnf_of
from hybrid.json_schema.errors import TOO_DEEP, UNREADABLE, SchemaRefused, unique_refused
from hybrid.json_schema.formulas import Formulas
from hybrid.json_schema.instances import Instances
from hybrid.json_schema.languages.limits import TooLarge, with_deadline
from hybrid.json_schema.layout import Layout, layout_of
from hybrid.json_schema.left_out import refuse_forbidding
from hybrid.json_schema.locations import Locations
from hybrid.json_schema.nonterminals import Bounds, Nonterminals
from hybrid.json_schema.numbers import Numbers
from hybrid.json_schema.objects import build_object
from hybrid.json_schema.productive import find_productive
from hybrid.json_schema.references import Documents
from hybrid.json_schema.rows import Rows
from hybrid.json_schema.strings import Strings
from hybrid.json_schema.structure_writers import emit
from hybrid.json_schema.uniqueness.cardinality import Counts
from hybrid.json_schema.uniqueness.conditional import conditional_always_ends
from hybrid.json_schema.uniqueness.exhaustion import always_ends
from hybrid.json_schema.uniqueness.places import Places, places_of
from hybrid.json_schema.uniqueness.repeated_keys import (
    MOST_ORDERED,
    declare_few_keys,
    refuse_reordering,
    remember_repeats,
    reordering,
    repeating,
)
from hybrid.values.notations import fault_of

Convert = Callable[[str, Deadline | None], xgrammar.Grammar]
"""Turns the text of a grammar into XGrammar's grammar, before a deadline. Without one, the grammar has been
compiled, and is needed later."""

SERIALISED = 3
"""XGrammar's serialised grammar has about this many bytes for each character of EBNF: 2.9 to 7.7 for 299
schemas, mostly 3.2."""

MOST_LEFT_OUT = 16
"""At most this many keywords of a schema are left out on request."""


class LeftOut(NamedTuple):
    """A keyword that masks do not enforce, or not completely.

    Attributes:
        pointer: the place of the subschema that has the keyword.
        keyword: the keyword.
        why: why it is not enforced.
    """

    pointer: str
    keyword: str
    why: str


class Made(NamedTuple):
    """The intermediate results on the way from a schema to a grammar.

    Attributes:
        nonterminals: the sets of values that the grammar distinguishes.
        start: the nonterminal of the whole text.
        rows: the rules of the grammar.
        root: the start rule.
        places: where items or keys must be remembered because the grammar lets them repeat; None: nowhere.
        too_wide: places of formats that other texts match, too, with the reasons.
    """

    nonterminals: Nonterminals
    start: Nonterminal
    rows: Rows
    root: int
    places: Places | None
    too_wide: dict[str, str]


class Source(NamedTuple):
    """What the grammar of a schema is made from. It is kept, so that the grammar can be made again.

    Attributes:
        schema, documents, assert_formats, bounds: see `grammar_of_schema`.
        layout: what stands between values.
        strict: whether objects and arrays that declare keys or items are closed to others.
        left_out: (pointer, keyword) of each keyword to ignore.
    """

    schema: Any
    documents: Documents | None
    assert_formats: bool
    layout: Layout
    strict: bool
    bounds: Bounds
    left_out: frozenset[tuple[str, str]]

    def made(self, deadline: Deadline) -> Made:
        """Make the grammar.

        Raises:
            SchemaRefused, BudgetExceeded: see `grammar_of_schema`.
        """
        schema = read_schema(self.schema) if isinstance(self.schema, str) else self.schema
        try:
            return with_deadline(deadline, lambda: self._made(schema, deadline))
        except RecursionError as error:
            raise SchemaRefused("limit", "", "", TOO_DEEP) from error

    def _made(self, schema: Any, deadline: Deadline) -> Made:
        named = schema
        if ("", "$schema") in self.left_out:
            named = {keyword: value for keyword, value in schema.items() if keyword != "$schema"}
        contents = None if self.documents is None else self.documents.contents
        dialect = dialect_of(named, contents, self.assert_formats)
        locations = Locations(schema, dialect, self.left_out, self.documents)
        formulas, bounds = Formulas(), self.bounds
        strings = Strings(formulas, bounds.language_states)
        assertions = Assertions(formulas, locations, strings)
        numbers = Numbers(formulas, 4 * bounds.language_states)  # states of numbers are small
        nonterminals = Nonterminals(
            assertions, numbers, bounds, deadline, self.strict, build_object, build_array
        )
        start = nonterminals.of(assertions.root())
        unique, these, counts = _bounded(nonterminals, start)
        if self.left_out:
            refuse_forbidding(locations, self.left_out)
        if not start.is_productive:
            raise self._unsatisfiable(schema, strings.too_wide, deadline)
        _check_unique(nonterminals, unique, counts)
        remember_repeats(nonterminals, these)
        places = places_of(counts, start, self.layout.is_free) if these or unique else None
        if places is not None and not self.layout.is_json:
            why = (
                "has items or keys that must not be repeated; they are found only if `separators` are ',' "
                "and ':' with white space"
            )
            raise SchemaRefused("option", "", "", why)
        rows, root = emit(nonterminals, start, self.layout)
        return Made(nonterminals, start, rows, root, places, strings.too_wide)

    def _unsatisfiable(self, schema: Any, too_wide: dict[str, str], deadline: Deadline) -> SchemaRefused:
        """Return the error for a schema that no text satisfies. A format that allows too much forbids too
        much inside a negation, so it may be the reason.

        Args:
            too_wide: the places of such formats, with the reasons.
        """
        if too_wide:
            source = self._replace(left_out=self.left_out | {(place, "format") for place in too_wide})
            try:
                source._made(schema, deadline)
            except SchemaRefused as error:
                if (error.kind, error.keyword) == ("needed", "format"):  # it is inside a negation
                    if error.pointer not in too_wide:
                        return error
                    why = f"{too_wide[error.pointer]}; inside a negation, this may forbid all valid instances"
                    return SchemaRefused("needed", "format", error.pointer, why)
        return SchemaRefused("unsatisfiable", "", "", "has no valid instance")


def _bounded(
    nonterminals: Nonterminals, start: Nonterminal
) -> tuple[list[Nonterminal], list[Nonterminal], Counts]:
    """Build all nonterminals, find out which of them have values, declare keys whose order or repeats matter,
    and bound arrays of unique items by the numbers of values.

    If an array has too few values, other nonterminals may be empty, too, so this is repeated.

    Returns:
        The nonterminals whose arrays must remember items, those to whose objects repeats matter, and counts
        of values.
    """
    n_before = -1
    while True:
        nonterminals.build_all(start)
        find_productive(nonterminals.used)
        unique, these = _remembering(nonterminals), repeating(nonterminals)
        if unique or these:
            nonterminals.leave_out_dead(start)
            unique, these = _remembering(nonterminals), repeating(nonterminals)
        if declare_few_keys(nonterminals, these):
            continue
        reordered = reordering(unique)
        if declare_few_keys(nonterminals, reordered, MOST_ORDERED):
            continue
        counts = Counts(nonterminals)
        if not unique or len(nonterminals.used) == n_before:
            refuse_reordering(nonterminals, unique)
            return unique, these, counts
        n_before = len(nonterminals.used)
        for one in unique:
            assert one.array is not None
            if reordered and reordering([one]):
                continue  # it is refused, unless others turn out to leave it no place
            with _placing(nonterminals, one):
                bound_unique(one.array, counts)


def _remembering(nonterminals: Nonterminals) -> list[Nonterminal]:
    """Return the nonterminals whose arrays must remember items."""
    arrays = [one for one in nonterminals.used if one.array is not None and one.array.remembers]
    return [one for one in arrays if one.array.is_live[0]]


def _check_unique(nonterminals: Nonterminals, unique: list[Nonterminal], counts: Counts) -> None:
    """Refuse arrays of unique items that might be impossible to end after some values."""
    for one in unique:
        array = one.array
        assert array is not None
        if array.is_conditional:
            with _placing(nonterminals, one):
                ends = conditional_always_ends(array, counts)
            why = (
                "it applies only in some cases (below 'not' or in a branch), and there may be too few "
                "different items to end the array"
            )
        else:
            with _placing(nonterminals, one):
                ends = array.counted[0] is not None or always_ends(array, counts)
            why = "there may be no unused value left before the array can end"
        if not ends:
            raise nonterminals.placed(unique_refused(why), one.formula)


@contextmanager
def _placing(nonterminals: Nonterminals, one: Nonterminal) -> Iterator[None]:
    """A context in which an error that has no place gets that of a nonterminal."""
    try:
        yield
    except SchemaRefused as error:
        raise nonterminals.placed(error, one.formula) from error.__cause__


@forks.with_unlocked_properties
class SchemaGrammar:
    """The grammar of the JSON texts whose values are valid under a schema.

    Attributes:
        left_out: keywords that were left out on request, and formats that other texts match, too.
        places: where items or keys must be remembered because the grammar lets them repeat; None: nowhere.
        convert: turns the text of the grammar into XGrammar's grammar.
        most_bytes: the maximum size of XGrammar's serialised grammar in bytes; None: no limit.
        deadline: of the call that compiles the grammar, until `forget`.
    """

    def __init__(
        self,
        made: Made,
        source: Source,
        left_out: tuple[LeftOut, ...],
        convert: Convert,
        most_bytes: int | None,
        deadline: Deadline,
    ) -> None:
        self.places = made.places
        self.left_out, self.convert, self.most_bytes = left_out, convert, most_bytes
        self._made: Made | None = made
        self._source = source
        self._deadline: Deadline | None = deadline

    @property
    def whole(self) -> Made:
        """The intermediate results. If they were released, they are computed again."""
        made = self._made
        # it was made in time before, and making it again takes the same time
        return self._source.made(self._deadline or Deadline()) if made is None else made

    def forget(self) -> None:
        """Release everything that can be made from the schema again when it is needed.

        For 300 schemas this was 240,000 objects, and Python's garbage collection took 148 ms instead of 11.
        Nonterminals that contain themselves, such as "any value", would live on until garbage is collected.
        """
        if self._made is not None and "instances" not in self.__dict__:
            self._made.nonterminals.release()
        self._made = self._deadline = None
        self.__dict__.pop("read", None)

    @property
    def counted(self) -> ParsedGrammar:
        """The grammar in the form that `equivalence.network` reads, for walks: it may have counted
        automata."""
        whole = self.whole
        return whole.rows.reading(whole.root, self)

    @cached_property
    def read(self) -> ParsedGrammar:
        """The same without counted automata. `xgrammar` is its complete form.

        Raises:
            BudgetExceeded: see `uncounted`.
        """
        rows, root = self.uncounted()
        return rows.reading(root, self)

    def uncounted(self) -> tuple[Rows, int]:
        """Return the rules without counted automata, and the start rule.

        Raises:
            BudgetExceeded: the strings would need more states.
        """
        whole = self.whole
        if not whole.rows.automata:
            return whole.rows, whole.root
        try:
            layout = self._source.layout
            return with_deadline(
                self._deadline or Deadline(),
                lambda: emit(whole.nonterminals, whole.start, layout, counts=False),
            )
        except (SchemaRefused, TooLarge) as error:
            raise BudgetExceeded(
                f"without counting lengths along patterns, the schema needs more states: {error}"
            ) from error

    @cached_property
    def ebnf(self) -> str:
        """The grammar as text, for XGrammar.

        Raises:
            BudgetExceeded: XGrammar's serialised grammar would have more than `most_bytes`, or the deadline
                has passed.
        """
        rows, root = self.uncounted()
        most = None if self.most_bytes is None else self.most_bytes // SERIALISED
        text = with_deadline(self._deadline or Deadline(), lambda: ebnf_of(rows, root, most))
        if text is None:
            limit = f"{(self.most_bytes or 0) / 2**20:.1f} MiB"
            raise BudgetExceeded(
                f"XGrammar would convert the schema to a grammar of more than {limit}, which is the limit "
                "(a 16th of Budget.bytes); raise Budget.bytes, or Budget.states, or simplify the schema"
            )
        return text

    @cached_property
    def xgrammar(self) -> xgrammar.Grammar:
        """The grammar as XGrammar's object."""
        return self.convert(self.ebnf, self._deadline)

    def serialize_json(self) -> str:
        """Return the serialised form of `xgrammar`."""
        return str(self.xgrammar.serialize_json())

    @cached_property
    def instances(self) -> Instances:
        """An object that decides whether parsed values are valid, and writes them as the grammar requires."""
        whole = self.whole
        return Instances(whole.nonterminals, whole.start)


def in_xgrammar(grammar: xgrammar.Grammar | SchemaGrammar) -> xgrammar.Grammar:
    """Return a grammar as XGrammar's object."""
    return grammar.xgrammar if isinstance(grammar, SchemaGrammar) else grammar


def grammar_of_schema(
    schema: Any,
    options: Mapping[str, Any] | None = None,
    *,
    bounds: Bounds | None = None,
    deadline: Deadline | None = None,
    relax: bool = False,
    convert: Convert | None = None,
    most_bytes: int | None = None,
    assert_formats: bool = True,
    documents: Documents | None = None,
) -> SchemaGrammar:
    """Return the grammar of a schema.

    Args:
        schema: JSON text, or the parsed schema.
        options: XGrammar's options for schemas.
        bounds: how large the grammar may become; None: the defaults of `Bounds`.
        deadline: when to give up.
        relax: leave out keywords that cannot be kept, and name them, instead of refusing the schema.
        convert: turns text into XGrammar's grammar if that is needed; None: XGrammar itself does it, without
            a deadline.
        most_bytes: the maximum size of that grammar in bytes; None: no limit.
        assert_formats: treat `format` as an assertion, not as an annotation.
        documents: other documents that references may lead to; None: none.

    Raises:
        SchemaRefused: the schema is invalid, no value satisfies it, or it needs something that is not
        supported. BudgetExceeded: the deadline has passed.
    """
    options, bounds = options or {}, bounds or Bounds()
    strict = bool(options.get("strict_mode", True))
    source = Source(schema, documents, assert_formats, layout_of(options), strict, bounds, frozenset())
    left_out: list[LeftOut] = []
    deadline = deadline or Deadline()
    while True:
        try:
            made = source.made(deadline)
        except SchemaRefused as error:
            can_go = error.kind in ("unsupported", "bounds", "limit") and error.keyword
            place = error.pointer, error.keyword
            if not relax or not can_go or place in source.left_out or len(left_out) == MOST_LEFT_OUT:
                raise
            left_out.append(LeftOut(error.pointer, error.keyword, error.why))
            source = source._replace(left_out=source.left_out | {place})
            continue
        formats = (LeftOut(pointer, "format", why) for pointer, why in made.too_wide.items())
        convert = convert or (lambda text, _: xgrammar.Grammar.from_ebnf(text))
        return SchemaGrammar(made, source, (*left_out, *formats), convert, most_bytes, deadline)


def _exact(text: str) -> float | Decimal:
    """Return a number that has a fraction or an exponent, as a `Decimal` if a float would have another
    value."""
    value = float(text)
    try:
        exact = Decimal(text)
    except ArithmeticError as error:
        raise ValueError(f"the exponent of {text[:60]} is too large") from error
    return value if Decimal(repr(value)) == exact else exact


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_READER = json.JSONDecoder(parse_float=_exact, parse_constant=_no_number)


def read_schema(text: str) -> Any:
    """Parse the text of a schema. Numbers are exact.

    Raises:
        SchemaRefused: it is not JSON.
    """
    try:
        return _READER.decode(text)
    except ValueError as error:
        why = f"{UNREADABLE}{fault_of(text) or error}"
        raise SchemaRefused("invalid", "", "", why) from error
    except RecursionError as error:
        raise SchemaRefused("limit", "", "", TOO_DEEP) from error
