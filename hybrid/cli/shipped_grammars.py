"""The grammars that come with the package: use them as they are, or start your own from them.

What: `shipped_grammars` lists them, `shipped_grammar` finds one by name. Each has its text, its kind (its
notation) and a description.
When: used by the command ``grammars``, by examples and tests. Programs may compile the texts, too.
Limits: they are easy to read, but not complete. The first comment of each says what is missing of its
language.
"""

from __future__ import annotations

import importlib.resources
from dataclasses import dataclass
from typing import Literal

from equivalence.errors import GrammarError

Kind = Literal["gbnf", "lark"]

COMMENT: dict[Kind, str] = {"gbnf": "#", "lark": "//"}
"""The mark of a comment, by kind. A file's suffix is its kind."""


@dataclass(frozen=True)
class ShippedGrammar:
    """A grammar that comes with the package.

    Attributes:
        name: the file's name, such as ``json.lark``. There may be one language in two notations.
        kind: ``gbnf`` for `GrammarCompiler.compile_grammar`, with the root rule ``root``; ``lark`` for
            `GrammarCompiler.compile_lark`, with the rule ``start``.
        description: the first line of its first comment.
        text: the text of the grammar.
    """

    name: str
    kind: Kind
    description: str
    text: str


def shipped_grammars() -> tuple[ShippedGrammar, ...]:
    """Return all grammars that come with the package, by name."""
    found = []
    for file in (importlib.resources.files("hybrid") / "grammars").iterdir():
        for kind, comment in COMMENT.items():
            if file.name.endswith(f".{kind}"):
                text = file.read_text(encoding="utf-8")
                found.append(ShippedGrammar(file.name, kind, _description(text, comment), text))
    return tuple(sorted(found, key=lambda grammar: grammar.name))


def shipped_grammar(name: str) -> ShippedGrammar:
    """Return the grammar with a name such as ``json.lark``.

    Raises:
        GrammarError: there is no grammar of that name.
    """
    grammars = {grammar.name: grammar for grammar in shipped_grammars()}
    if name not in grammars:
        raise GrammarError(f"no grammar {name!r} comes with the package; choose one of {', '.join(grammars)}")
    return grammars[name]


def _description(text: str, comment: str) -> str:
    """Return the first comment line, without its mark."""
    lines = (line.strip() for line in text.splitlines())
    return next((line.removeprefix(comment).strip() for line in lines if line.startswith(comment)), "")
