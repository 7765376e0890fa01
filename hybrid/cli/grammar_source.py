"""Reading a grammar from one argument of the command line: a file, a text, or ``builtin:json``.

What: `read_grammar` turns such an argument into a grammar that XGrammar has parsed.
When: used by the command line. Programs call the compiler's methods.
Limits: EBNF (GBNF) and JSON schemas. JSON text is taken for a schema.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

import xgrammar

from equivalence import ArgumentError, GrammarError
from hybrid.api.parallel import Source
from hybrid.cli.shipped_grammars import shipped_grammars
from hybrid.values.notations import fault_of
from hybrid.xgrammar.ebnf_advice import explained
from hybrid.xgrammar.messages import said, shortened

ALLOWED = "A file with a grammar (EBNF/GBNF) or a JSON schema (.json), the text of either, or 'builtin:json'."
COMPILED = f"A file in Lark's notation (.lark); {ALLOWED[0].lower()}{ALLOWED[1:]}"
"""What a grammar argument may be, for the command line's help."""

BUILTIN_JSON = "builtin:json"

_ROOT_ARGUMENT = re.compile(r"pass (?:root_rule_name|start)=")
"""What errors advise programs to pass, in place of the option ``--root``."""


def read_grammar(text_or_file: str, root: str = "root", strict: bool = True) -> xgrammar.Grammar:
    """Parse a grammar or schema from a file or a text. JSON text is taken for a schema.

    Raises:
        GrammarError: XGrammar refuses it.
    """
    if text_or_file == BUILTIN_JSON:
        return xgrammar.Grammar.builtin_json_grammar()
    text, schema = _read(text_or_file)
    if text_or_file.endswith(LARK_SUFFIX) and is_file(text_or_file):
        raise GrammarError(
            f"{text_or_file!r} is in Lark's notation, which this command does not read; pass an EBNF/GBNF "
            "grammar or a JSON schema, or use `explain`, which also shows the token classes of Lark grammars"
        )
    try:
        if schema is not None:
            return xgrammar.Grammar.from_json_schema(schema, strict_mode=strict)
        return xgrammar.Grammar.from_ebnf(text, root_rule_name=root)
    except (RuntimeError, ValueError) as error:  # texts and messages may not be UTF-8
        kind = "schema" if schema is not None else "grammar"
        told = (explained(said(error), text) if schema is None else None) or shortened(error)
        raise GrammarError(
            f"XGrammar refuses the {kind} {_short(text_or_file)}: {told}; pass a file or the "
            "text of an EBNF/GBNF grammar or a JSON schema"
        ) from error


LARK_SUFFIX = ".lark"


class Named(NamedTuple):
    """A grammar with a name for people.

    Attributes:
        source: the grammar as `GrammarCompiler` takes it. A schema stays a schema, so that it is known what
            is not enforced.
        title, kind: its name and its notation.
        document: a valid document, if the file has MaskBench's form and contains one; else None.
    """

    source: Source
    title: str
    kind: str
    document: bytes | None


def read_named(
    text_or_file: str, root: str | None = None, strict: bool = True, semantics: str = "xgrammar",
    formats: bool = True,
) -> Named:  # fmt: skip
    """Read a grammar with its name, its kind and perhaps a document. A file ``*.lark`` is a Lark grammar.

    Args:
        text_or_file: see `read_grammar`.
        root: the root rule; None for "root", or "start" in Lark grammars.
        strict: XGrammar's strict_mode, for schemas.
        semantics: what schemas mean, as in `hybrid.GrammarCompiler`.
        formats: with "json-schema", whether `format` is checked.

    Raises:
        ArgumentError: `formats` is false with other semantics.
        GrammarError: XGrammar refuses the grammar, or a file cannot be read. Schemas and Lark grammars are
            not checked yet.
    """
    if not formats and semantics == "xgrammar":
        raise ArgumentError("--no-formats needs --semantics json-schema")
    title = Path(text_or_file).name if is_file(text_or_file) else _short(text_or_file)
    if text_or_file == BUILTIN_JSON:
        return Named(Source("builtin_json"), "JSON", "built-in grammar", None)
    if is_file(text_or_file) and text_or_file.endswith(LARK_SUFFIX):
        source = Source("lark", read_text(text_or_file), {"start": "start" if root is None else root})
        return Named(source, title, "Lark grammar", None)
    text, schema = _read(text_or_file)
    if schema is None:
        source = Source("grammar", read_grammar(text_or_file, "root" if root is None else root))
        return Named(source, title, "EBNF grammar", None)
    options: dict[str, Any] = {"strict_mode": strict, "semantics": semantics}
    if not formats:
        options["assert_formats"] = False
    source = Source("json_schema", schema, options)
    return Named(source, title, "JSON schema", _valid_instance(text))


def _valid_instance(text: str) -> bytes | None:
    """Return the first valid instance in a file of MaskBench's form."""
    value = json.loads(text)
    tests = value.get("tests") if isinstance(value, dict) and "schema" in value else None
    for test in tests if isinstance(tests, list) else ():
        if isinstance(test, dict) and test.get("valid") is True and "data" in test:
            return json.dumps(test["data"], ensure_ascii=False, indent=2).encode("utf-8", "replace")
    return None


def read_text(file: str) -> str:
    """Read a file.

    Raises:
        GrammarError: the file cannot be read as UTF-8.
    """
    try:
        return Path(file).read_text(encoding="utf-8-sig")  # without a byte order mark
    except (OSError, UnicodeDecodeError) as error:
        raise GrammarError(f"{file!r} cannot be read as UTF-8 text: {error}") from error


def is_file(word: str) -> bool:
    """Whether an argument is the path of a file. A text that is too long for a path is not tried."""
    return len(word) < 4096 and "\n" not in word and os.path.isfile(word)


def looks_like_file(word: str) -> bool:
    """Whether an argument is the name of a file and not a text: no grammar or schema is so short a word."""
    return re.fullmatch(r"[^\s\"{}\[\]|]+\.(json|lark|gbnf|ebnf|txt)", word) is not None


def _read(text_or_file: str) -> tuple[str, str | None]:
    """Return a text, and the text of the schema if it is one, else None. In a file of MaskBench's form, it is
    under the key "schema".

    Raises:
        GrammarError: there is no such file, it cannot be read, or its text begins like JSON and is not.
    """
    if looks_like_file(text_or_file) and not is_file(text_or_file):
        allowed = f"{ALLOWED[0].lower()}{ALLOWED[1:-1]}"
        show = f"python -m hybrid grammars --show {text_or_file} > {text_or_file}"
        is_ours = any(grammar.name == text_or_file for grammar in shipped_grammars())
        way = f"`{show}` writes it" if is_ours else f"pass {allowed}"
        raise GrammarError(f"there is no file {_short(text_or_file)}; {way}")
    text = read_text(text_or_file) if is_file(text_or_file) else text_or_file
    try:
        value = json.loads(text)
        if isinstance(value, dict) and "schema" in value and "tests" in value:
            return text, json.dumps(value["schema"])
        return text, json.dumps(value) if isinstance(value, (dict, bool)) else None
    except (ValueError, RecursionError) as error:
        if text.lstrip().startswith("{"):  # no grammar begins like this
            raise GrammarError(
                f"the schema {_short(text_or_file)} cannot be read: {fault_of(text) or error}"
            ) from error
        return text, None


def message_of(error: Exception) -> str:
    """What to print of an error."""
    return f"{type(error).__name__}: {_ROOT_ARGUMENT.sub('pass --root ', str(error))}"


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")
