"""What ``jsonschema`` says of an instance: the judge where a label may be wrong.

What: `Judge` compiles one schema, `verdict` says of an instance whether it is valid, and if not, which
keywords say so; `judged` weighs a verdict against a label.
When: beside the labels of MaskBench's files.
Limits: the dialect is the one that ``$schema`` names, 2020-12 without one. Formats count as assertions, as
in MaskBench's labels, if ``jsonschema`` has a check for them here (its extra ``format-nongpl`` adds most).
A schema with others has no verdict on what passes all the rest: the label stands. Nothing is fetched, so
there is no verdict over a reference to elsewhere either. Patterns are Python's: ``$`` lets a line end go
by, a class of digits takes those of any script, and a pattern that Python does not read gives no verdict.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

VALUES = ("enum", "const", "default", "examples", "example")


@dataclass(frozen=True)
class Verdict:
    """Whether an instance is valid; None where that cannot be said.

    Attributes:
        why: keywords that an invalid instance breaks, outermost first; or why there is no verdict.
    """

    valid: bool | None
    why: tuple[str, ...] = ()


class Judge:
    """One schema in ``jsonschema``."""

    def __init__(self, schema: Any) -> None:
        from jsonschema import Draft202012Validator, FormatChecker
        from jsonschema.validators import validator_for
        from jsonschema_specifications import REGISTRY

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an unknown $schema: 2020-12 then
            kind = validator_for(schema, default=Draft202012Validator)
        # Formats that came with later drafts count in schemas of earlier ones, too.
        checker = FormatChecker(formats=())
        checker.checkers = {**Draft202012Validator.FORMAT_CHECKER.checkers, **kind.FORMAT_CHECKER.checkers}
        # The registry knows the specifications' own schemas and fetches nothing.
        self._validator = kind(schema, registry=REGISTRY, format_checker=checker)
        self.unchecked = sorted(set(formats(schema)) & KNOWN_FORMATS - set(checker.checkers))

    def verdict(self, instance: Any) -> Verdict:
        """Whether the instance is valid, as far as this can be told."""
        try:
            errors = list(self._validator.iter_errors(instance))
        except Exception as error:  # noqa: BLE001 - a schema that jsonschema cannot read: no verdict
            return Verdict(None, (f"{type(error).__name__}: {error}"[:200],))
        errors.sort(key=lambda one: ([str(step) for step in one.absolute_path], str(one.validator)))
        if errors:
            return Verdict(False, tuple(dict.fromkeys(name for one in errors for name in keywords(one))))
        if self.unchecked:
            return Verdict(None, (f"formats that are not checked here: {', '.join(self.unchecked)}",))
        return Verdict(True)


KNOWN_FORMATS = frozenset((
    "date", "date-time", "duration", "email", "hostname", "idn-email", "idn-hostname", "ipv4", "ipv6", "iri",
    "iri-reference", "json-pointer", "regex", "relative-json-pointer", "time", "uri", "uri-reference",
    "uri-template", "uuid",
))  # fmt: skip
"""The formats of the specifications; others are annotations."""


def formats(schema: Any) -> Iterator[str]:
    """All values of ``format`` anywhere in a schema, but not inside of values."""
    waiting = [schema]
    while waiting:
        one = waiting.pop()
        if isinstance(one, list):
            waiting += one
        elif isinstance(one, Mapping):
            if isinstance(one.get("format"), str):
                yield one["format"]
            waiting += [value for key, value in one.items() if key not in VALUES]


def keywords(error: Any) -> Iterator[str]:
    """The keywords of an error: its own, and of those below it the one that tells most."""
    from jsonschema.exceptions import best_match

    yield str(error.validator)
    if error.context and (below := best_match(error.context)) is not None:
        yield str(below.validator)


def judged(label: bool, verdict: bool | None) -> bool:
    """Whether an instance counts as valid: by the verdict, else by the label."""
    return label if verdict is None else verdict
