"""The grammars that come with the package: ready to compile, or to start one's own from.

What: `shipped_grammars` lists them, `shipped_grammar` finds one by its name; each has its text, its kind (the
notation it is written in) and a line that describes it.
When: in the command line's ``grammars``, in examples and tests; a program may compile a text as it is.
Limits: they favour readers over completeness; each one's opening comment says what its language leaves out.
"""

from __future__ import annotations

import importlib.resources
from dataclasses import dataclass
from typing import Literal

from equivalence.errors import GrammarError

Kind = Literal["gbnf", "lark"]

COMMENT: dict[Kind, str] = {"gbnf": "#", "lark": "//"}
"""What begins a comment, by kind; a file's suffix is its kind."""


@dataclass(frozen=True)
class ShippedGrammar:
    """A grammar that comes with the package.

    Attributes:
        name: of its file, such as ``json.lark``: the same language may be there in two notations.
        kind: ``gbnf`` for `GrammarCompiler.compile_grammar`, with the root rule ``root``; ``lark`` for Lark's
            own meaning (LALR, basic lexer), with the rule ``start``.
        description: one line, the first of its comments.
        text: the grammar.
    """

    name: str
    kind: Kind
    description: str
    text: str


def shipped_grammars() -> tuple[ShippedGrammar, ...]:
    """All grammars that come with the package, by name."""
    found = []
    for file in (importlib.resources.files("hybrid") / "grammars").iterdir():
        for kind, comment in COMMENT.items():
            if file.name.endswith(f".{kind}"):
                text = file.read_text(encoding="utf-8")
                found.append(ShippedGrammar(file.name, kind, _description(text, comment), text))
    return tuple(sorted(found, key=lambda grammar: grammar.name))


def shipped_grammar(name: str) -> ShippedGrammar:
    """The grammar of a name such as ``json.lark``.

    Raises:
        GrammarError: there is none of that name.
    """
    grammars = {grammar.name: grammar for grammar in shipped_grammars()}
    if name not in grammars:
        raise GrammarError(f"no grammar {name!r} comes with the package; allowed are {', '.join(grammars)}")
    return grammars[name]


def _description(text: str, comment: str) -> str:
    """The first comment line, without its mark."""
    lines = (line.strip() for line in text.splitlines())
    return next((line.removeprefix(comment).strip() for line in lines if line.startswith(comment)), "")
