"""White space and separators, as XGrammar's options define them.

What: `Layout` describes what stands between the parts of a JSON text.
When: made from the options of a compile call; `hybrid.json_schema.structure_writers` uses it.
Limits: an indentation is part of the text, so each depth has its own rules. A recursive schema is therefore
refused with `indent`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from equivalence.errors import GrammarError
from hybrid.json_schema.keyword_values import MOST_COUNTED

MOST_WHITE_SPACE = 256
"""The default limit of characters in one run of white space. A line break and twelve levels of eight spaces
are 97.

The limit exceeds the longest token of white space, which has 128 characters in the vocabularies of Llama 3,
Qwen 2.5 and o200k: further from the limit, walks need not count. With a limit of 128, each mask before white
space counted to it, and masks in documents took twice as long on average."""


MOST_INDENT = 256
"""The most spaces for each level: they are characters of the grammar."""


@dataclass(frozen=True)
class Layout:
    """What stands between the parts of a text.

    Attributes:
        is_free: whether any white space may stand where JSON allows it; otherwise the other attributes say
            what stands there.
        most_blanks: bound on the length of one run of white space; None: unbounded.
        indent: spaces for each level; None: everything is on one line.
        comma, colon: the separators.
    """

    is_free: bool = True
    most_blanks: int | None = None
    indent: int | None = None
    comma: str = ", "
    colon: str = ": "

    @property
    def is_json(self) -> bool:
        """Whether the texts are JSON."""
        return self.is_free or (self.comma.strip(" \t\n\r"), self.colon.strip(" \t\n\r")) == (",", ":")


def layout_of(options: Mapping[str, Any]) -> Layout:
    """Return the layout that XGrammar's options ask for.

    Raises:
        GrammarError: an option has a value that is not allowed.
    """
    if options.get("any_order"):
        raise GrammarError(
            "any_order is not available with semantics='json-schema': keys come in the order in which "
            "the schema declares them; omit it, or use semantics='xgrammar'"
        )
    is_free, indent = bool(options.get("any_whitespace", True)), options.get("indent")
    most = options.get("max_whitespace_cnt")
    if indent is not None and not 0 <= indent <= MOST_INDENT:
        raise GrammarError(f"indent must be an integer from 0 to {MOST_INDENT}, but is {indent}")
    if most is not None and most <= 0:
        raise GrammarError(f"max_whitespace_cnt must be an integer above 0, but is {most}")
    separators = options.get("separators")
    if separators is None:
        separators = (", ", ": ") if indent is None else (",", ": ")
    elif len(separators) != 2 or not all(map(is_text, separators)):
        raise GrammarError(f"separators must be two texts, but are {separators!r}")
    return _layout(is_free, min(most, MOST_COUNTED) if most and is_free else None, indent, *separators)


_layout = lru_cache(maxsize=64)(Layout)
"""Equal layouts are one object: nearly all grammars of a program have the same."""


def is_text(one: Any) -> bool:
    """Whether it is text that has an encoding: without lone surrogates."""
    return isinstance(one, str) and not any("\ud800" <= letter <= "\udfff" for letter in one)
