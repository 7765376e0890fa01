"""What the tests share: the cases that every engine runs, a real vocabulary and the corpora.

What: `load_cases` reads ``tests/cases/*.toml``; the fixtures `tekken` and `corpora` give real data.
When: imported by tests as ``from tests.conftest import load_cases``.
Limits: the corpora are optional; tests that use them are skipped where there are none.

A case is one grammar with strings that say what it means, in a TOML table ``[[case]]``:

====================  ===================================================================================
``name``              unique over all files
``kind``              ``ebnf``, ``json_schema``, ``regex``, ``structural_tag``, ``lark`` (XGrammar's
                      scannerless dialect) or ``builtin_json``
``grammar``           the source text; ``grammar_file`` names a file of the project instead
``options``           keywords of XGrammar's ``Grammar.from_...`` function of this kind (optional)
``accepts``           whole strings of the language
``rejects``           strings outside of the language; some are prefixes of it
``prefixes``          strings that some string of the language begins with
``features``          words to select cases by
====================  ===================================================================================

A string is written as a TOML string, as ``{ hex = "c3" }`` where it is not UTF-8, or as ``{ before = "[",
text = "ab", times = 500, after = "]" }`` where it is long (``before`` and ``after`` may be left out).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import xgrammar

from equivalence.vocabulary import Vocabulary
from hybrid.vocabulary_spec import load_vocabulary

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# a landing must not hang on the luck of a draw: CI draws the same examples every time, a developer new ones
hypothesis.settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    hypothesis.settings.load_profile("ci")

CHECKOUT = Path(__file__).resolve().parent.parent

KINDS = ("ebnf", "json_schema", "regex", "structural_tag", "lark", "builtin_json")


@dataclass(frozen=True)
class Case:
    """One grammar and what it means; the fields are described at the top of this file."""

    name: str
    kind: str
    grammar: str
    options: dict[str, Any]
    accepts: tuple[bytes, ...]
    rejects: tuple[bytes, ...]
    prefixes: tuple[bytes, ...]
    features: frozenset[str]

    def __str__(self) -> str:
        return self.name

    def parse(self) -> xgrammar.Grammar:
        """The grammar as XGrammar's own parsers and converters read it."""
        if self.kind == "ebnf":
            return xgrammar.Grammar.from_ebnf(self.grammar, **self.options)
        if self.kind == "json_schema":
            return xgrammar.Grammar.from_json_schema(self.grammar, **self.options)
        if self.kind == "regex":
            return xgrammar.Grammar.from_regex(self.grammar, **self.options)
        if self.kind == "structural_tag":
            return xgrammar.Grammar.from_structural_tag(self.grammar)
        if self.kind == "lark":
            return xgrammar.Grammar.from_lark(self.grammar, **self.options)
        return xgrammar.Grammar.builtin_json_grammar()


def load_cases(*, kind: str | None = None, feature: str | None = None) -> list[Case]:
    """The cases of one kind or with one feature, or all of them, in the order of files and lines."""
    return [
        case
        for case in _all_cases()
        if (kind is None or case.kind == kind) and (feature is None or feature in case.features)
    ]


@cache
def _all_cases() -> tuple[Case, ...]:
    cases = tuple(
        case for path in sorted((CHECKOUT / "tests" / "cases").glob("*.toml")) for case in _read_cases(path)
    )
    names = [case.name for case in cases]
    repeated = {name for name in names if names.count(name) > 1}
    assert not repeated, f"these names of cases are used twice: {sorted(repeated)}"
    return cases


def _read_cases(path: Path) -> Iterator[Case]:
    for table in tomllib.loads(path.read_text(encoding="utf-8"))["case"]:
        where = f"{path.name}: case {table.get('name')!r}"
        assert table["kind"] in KINDS, f"{where} has kind {table['kind']!r}, allowed are {KINDS}"
        file = table.pop("grammar_file", None)
        grammar = table.pop("grammar", "")
        yield Case(
            name=table.pop("name"),
            kind=table.pop("kind"),
            grammar=grammar if file is None else (CHECKOUT / file).read_text(encoding="utf-8"),
            options=table.pop("options", {}),
            accepts=tuple(map(_as_bytes, table.pop("accepts"))),
            rejects=tuple(map(_as_bytes, table.pop("rejects"))),
            prefixes=tuple(map(_as_bytes, table.pop("prefixes"))),
            features=frozenset(table.pop("features")),
        )
        assert not table, f"{where} has unknown keys {sorted(table)}"


def _as_bytes(string: str | dict[str, Any]) -> bytes:
    if isinstance(string, str):
        return string.encode()
    if "hex" in string:
        return bytes.fromhex(string["hex"])
    text: str = string.get("before", "") + string["text"] * string["times"] + string.get("after", "")
    return text.encode()


@pytest.fixture(scope="session")
def tekken() -> Vocabulary:
    """A real vocabulary of 131,072 ids that comes with an installed package."""
    return load_vocabulary("tekken")


@pytest.fixture(scope="session")
def corpora() -> Path:
    """The folder of real vocabularies, schemas and samples; the test is skipped where there is none."""
    named = os.environ.get("EQUIMASK_CORPORA")
    if named:
        folder = Path(named)
        assert folder.is_dir(), f"EQUIMASK_CORPORA names {named!r}, which is not a folder"
        return folder
    for folder in sorted(CHECKOUT.parent.glob("*/corpora")):
        if (folder / "tokenizers").is_dir():
            return folder
    pytest.skip("needs the corpora: set EQUIMASK_CORPORA to their folder")
