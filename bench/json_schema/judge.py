"""The verdicts of ``jsonschema`` about instances, because labels may be wrong.

What: `Judge` compiles one schema. `verdict` says whether an instance is valid, and if not, which keywords it
breaks. `judged` combines a verdict and a label.
When: in addition to the labels of MaskBench's files.
Limits: the dialect is that of ``$schema``, or 2020-12 without one. Formats count as assertions, as in
MaskBench's labels, if ``jsonschema`` has a check for them here (its extra ``format-nongpl`` adds most). For a
schema with other formats, there is no verdict on instances that pass all other checks; then the label counts.
Nothing is fetched, so there is no verdict if a reference leads to another document. Patterns are Python's:
``$`` also matches before a last line break, a class of digits contains those of any script, and if Python
cannot read a pattern, there is no verdict.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

VALUES = ("enum", "const", "default", "examples", "example")
"""Keywords that hold instances, where nothing is a keyword."""


@dataclass(frozen=True)
class Verdict:
    """Whether an instance is valid; None if that is unknown.

    Attributes:
        why: the keywords that an invalid instance breaks, outermost first; or why there is no verdict.
    """

    valid: bool | None
    why: tuple[str, ...] = ()


def validator_of(schema: Any) -> Any:
    """Return the class of ``jsonschema`` for the dialect of a schema."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # for an unknown $schema, 2020-12 is used
        return validator_for(schema, default=Draft202012Validator)


class Judge:
    """One schema in ``jsonschema``."""

    def __init__(self, schema: Any) -> None:
        from jsonschema import Draft202012Validator, FormatChecker
        from jsonschema_specifications import REGISTRY

        kind = validator_of(schema)
        # Formats of later drafts are checked in schemas of earlier drafts, too.
        checker = FormatChecker(formats=())
        checker.checkers = {**Draft202012Validator.FORMAT_CHECKER.checkers, **kind.FORMAT_CHECKER.checkers}
        # The registry has the schemas of the specifications, and fetches nothing.
        self._validator = kind(schema, registry=REGISTRY, format_checker=checker)
        self.unchecked = sorted(set(formats(schema)) & KNOWN_FORMATS - set(checker.checkers))

    def verdict(self, instance: Any) -> Verdict:
        """Return whether the instance is valid, if that can be found out."""
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
    """Return all values of ``format`` in a schema, except inside of instances."""
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
    """Return the keywords of an error: its own, and those of the most informative error below it."""
    from jsonschema.exceptions import best_match

    yield str(error.validator)
    if error.context and (below := best_match(error.context)) is not None:
        yield str(below.validator)


def judged(label: bool, verdict: bool | None) -> bool:
    """Return whether an instance counts as valid: by the verdict, or by the label if there is none."""
    return label if verdict is None else verdict
