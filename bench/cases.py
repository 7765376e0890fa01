"""Cases: grammars with strings that say what they mean, and grammar files as cases.

What: `Case` is one grammar with its strings, `read_cases` reads a TOML file of cases, and `load_grammars`
reads what a command line names: case files, grammar files, folders of both.
When: in the tests, which run every case on every strategy, and in ``python -m bench equality``.
Limits: a file with another structure is an error. Strings are not checked here, but by the tests.

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
``features``          words to select cases by (optional)
====================  ===================================================================================

A string is written as a TOML string; as ``{ hex = "c3" }`` if it is not UTF-8; or as ``{ before = "[",
text = "ab", times = 500, after = "]" }`` if it is long (``before`` and ``after`` may be left out).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import xgrammar

from hybrid.cli.grammar_source import BUILTIN_JSON as BUILTIN_JSON  # also for other modules

CHECKOUT = Path(__file__).resolve().parent.parent

KINDS = ("ebnf", "json_schema", "regex", "structural_tag", "lark", "builtin_json")


@dataclass(frozen=True)
class Case:
    """One grammar and its strings; the fields are described at the top of this file."""

    name: str
    kind: str
    grammar: str
    options: dict[str, Any] = field(default_factory=dict)
    accepts: tuple[bytes, ...] = ()
    rejects: tuple[bytes, ...] = ()
    prefixes: tuple[bytes, ...] = ()
    features: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return self.name

    def parse(self) -> xgrammar.Grammar:
        """Parse or convert the grammar by XGrammar."""
        if self.kind == "builtin_json":
            return xgrammar.Grammar.builtin_json_grammar()
        read: Callable[..., xgrammar.Grammar] = getattr(xgrammar.Grammar, f"from_{self.kind}")
        return read(self.grammar, **self.options)


def read_cases(path: Path) -> Iterator[Case]:
    """Read the cases of a TOML file.

    Raises:
        ValueError: the file, or a case in it, has another structure.
    """
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    for table in tomllib.loads(path.read_text(encoding="utf-8")).get("case", []):
        where = f"{path.name}: case {table.get('name')!r}"
        try:
            file = table.pop("grammar_file", None)
            grammar = table.pop("grammar", "")
            case = Case(
                name=table.pop("name"),
                kind=table.pop("kind"),
                grammar=grammar if file is None else (CHECKOUT / file).read_text(encoding="utf-8"),
                options=table.pop("options", {}),
                accepts=tuple(map(_as_bytes, table.pop("accepts"))),
                rejects=tuple(map(_as_bytes, table.pop("rejects"))),
                prefixes=tuple(map(_as_bytes, table.pop("prefixes"))),
                features=frozenset(table.pop("features", ())),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"{where} is not of the form of a case ({error!r})") from error
        if case.kind not in KINDS:
            raise ValueError(f"{where} has kind {case.kind!r}, allowed are {', '.join(KINDS)}")
        if table:
            raise ValueError(f"{where} has unknown keys {sorted(table)}")
        yield case


def load_grammars(paths: Iterable[Path]) -> list[Case]:
    """Read the cases of files and folders; those of a folder in the order of file names.

    Args:
        paths: ``*.toml`` files of cases; ``*.gbnf`` files with texts beside them, in ``NAME.1.txt`` or any
            other file whose name begins with the grammar's name and a dot; folders of both.

    Raises:
        ValueError: there is nothing, or a file has another structure.
    """
    found: list[Case] = []
    for given in paths:
        files = [given]
        if given.is_dir():
            files = sorted(path for path in given.iterdir() if path.suffix in (".toml", ".gbnf"))
        for path in files:
            found += read_cases(path) if path.suffix == ".toml" else [_grammar_file(path)]
    if not found:
        raise ValueError("no grammars there; expected are files *.toml (cases), *.gbnf, or folders of them")
    return found


def _grammar_file(path: Path) -> Case:
    beside = sorted(path.parent.glob(f"{path.stem}.*"))
    texts = tuple(text.read_bytes() for text in beside if text.suffix not in (".gbnf", ".toml"))
    grammar = path.read_text(encoding="utf-8")
    return Case(path.stem, "ebnf", grammar, accepts=texts)


def _as_bytes(string: str | dict[str, Any]) -> bytes:
    if isinstance(string, str):
        return string.encode()
    if "hex" in string:
        return bytes.fromhex(string["hex"])
    text: str = string.get("before", "") + string["text"] * string["times"] + string.get("after", "")
    return text.encode()
