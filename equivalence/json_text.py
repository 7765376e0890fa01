"""Faults of texts that are not JSON.

What: `fault_of` finds the first fault, and says at which line and column it is, and what to do.
`looks_like_ebnf` recognises grammars.
When: for texts of schemas and structural tags that no parser accepts.
Limits: texts that Python's `json` accepts have no fault, also those with `NaN`.
"""

from __future__ import annotations

import json
import re

_FILE_NAME = re.compile(r"[\w./\\~:-]*[\w-]\.[A-Za-z]\w{0,9}")
_EBNF = re.compile(r"(?:\s|#.*\n|//.*\n)*[\w.-]+[ \t]*::=")
_LAST_COMMA = re.compile(r",\s*[}\]]")


def fault_of(text: str) -> str | None:
    """The first fault; None if there is none."""
    if _FILE_NAME.fullmatch(text.strip()):
        return f"{text.strip()!r} looks like the name of a file; pass the contents of the file"
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        # the error is at the comma from Python 3.13 on, and before that at the bracket
        at = error.pos if text.startswith(",", error.pos) else len(text[: error.pos].rstrip()) - 1
        if _LAST_COMMA.match(text, at):
            return f"there is a comma before a closing bracket at {_place(text, at)}; remove it"
        if not text.strip():
            return "it is empty"
        if looks_like_ebnf(text):
            return "it looks like a grammar in EBNF; use compile_grammar"
        return f"it is not valid JSON: {_place(text, error.pos)}: {error.msg[:1].lower()}{error.msg[1:]}"
    except RecursionError:
        return "it is nested too deeply"
    except ValueError as error:  # an integer of thousands of digits
        return str(error)
    return None


def looks_like_ebnf(text: str) -> bool:
    """Whether a text begins with a rule in EBNF, after comments. A later rule may be in a string of another
    notation, or be a slip of the pen."""
    return _EBNF.match(text) is not None


def _place(text: str, at: int) -> str:
    line = text.count("\n", 0, at) + 1
    return f"line {line}, column {at - text.rfind(chr(10), 0, at)}"
