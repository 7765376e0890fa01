"""Recognise the notation of a text that its parser refuses.

What: `fault_of` finds the first fault of a text that should be JSON, and says at which line and column it is,
and what to do. `not_ebnf` and `not_lark` say what else a text may be that should be a grammar.
When: for the messages of errors, after a parser has refused a text.
Limits: texts that Python's `json` accepts have no fault, also those with `NaN`.
"""

from __future__ import annotations

import json
import re

_FILE_NAME = re.compile(r"[\w./\\~:-]*[\w-]\.[A-Za-z]\w{0,9}")
_EBNF = re.compile(r"(?:\s|#.*\n|//.*\n)*[\w.-]+[ \t]*::=")
"""A rule at the beginning, after comments. A later rule may be in a string of another notation, or be a slip
of the pen."""
_LARK_RULE = re.compile(r"(?m)^[?!]{0,2}\w+(?:\.\d+)?[ \t]*:(?!=)")
_LAST_COMMA = re.compile(r",\s*[}\]]")


def fault_of(text: str) -> str | None:
    """The first fault; None if there is none."""
    if name := _file_name(text):
        return name
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        # the error is at the comma from Python 3.13 on, and before that at the bracket
        at = error.pos if text.startswith(",", error.pos) else len(text[: error.pos].rstrip()) - 1
        if _LAST_COMMA.match(text, at):
            return f"there is a comma before a closing bracket at {_place(text, at)}; remove it"
        if not text.strip():
            return "it is empty"
        if _EBNF.match(text):
            return "it looks like a grammar in EBNF; use compile_grammar"
        return f"it is not valid JSON: {_place(text, error.pos)}: {error.msg[:1].lower()}{error.msg[1:]}"
    except RecursionError:
        return "it is nested too deeply"
    except ValueError as error:  # an integer of thousands of digits
        return str(error)
    return None


def not_ebnf(text: str) -> str | None:
    """What a text is that cannot be a grammar in EBNF; None if it may be one."""
    if "::=" in text:
        return None
    if name := _file_name(text):
        return name
    if text.lstrip().startswith("{"):
        method = "compile_structural_tag" if '"structural_tag"' in text else "compile_json_schema"
        return f"the text looks like JSON, not like EBNF; use {method}"
    if _LARK_RULE.search(text):
        return "the text looks like Lark's notation, not like EBNF; use compile_lark"
    return None


def not_lark(text: str) -> str | None:
    """What a text is that cannot be a grammar in Lark's notation; None if it may be one."""
    if name := _file_name(text):
        return name
    if _EBNF.match(text):
        return "the text looks like EBNF, not like Lark's notation; use compile_grammar"
    return None


def _file_name(text: str) -> str | None:
    """That a text is the name of a file; None if it is not."""
    if _FILE_NAME.fullmatch(text.strip()):
        return f"{text.strip()!r} looks like the name of a file; pass the contents of the file"
    return None


def _place(text: str, at: int) -> str:
    line = text.count("\n", 0, at) + 1
    return f"line {line}, column {at - text.rfind(chr(10), 0, at)}"
