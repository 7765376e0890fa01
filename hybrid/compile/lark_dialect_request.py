"""Compile requests for grammars in XGrammar's dialect of Lark.

What: `LarkDialectRequest` compiles a grammar as XGrammar converts it.
When: `adapters.xgrammar` makes them for XGrammar's ``compile_lark``.
Limits: not for Lark's own meaning, which is that of `hybrid.compile.request.LarkRequest`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import xgrammar

from equivalence import ArgumentError, Vocabulary
from equivalence.arguments import shown
from hybrid.compile.request import Converted, check_text
from hybrid.guard.estimate import Estimate, schema_estimate


@dataclass(frozen=True, eq=False)
class LarkDialectRequest(Converted):
    """A grammar in XGrammar's dialect of Lark.

    Attributes:
        text: the grammar.
        tokenizer_info: resolves the tokens that the text names.
        named: the grammars that the text names, as texts or `xgrammar.Grammar` objects.
        others: after `normalised`, their names, texts, and whether a text is a serialised grammar.
        vocabulary: after `normalised`, the vocabulary of the tokenizer.
    """

    notation: ClassVar[str] = "lark_dialect"
    title: ClassVar[str] = "Lark grammar"
    identity: ClassVar[tuple[str, ...]] = ("text", "others")
    text: str
    tokenizer_info: xgrammar.TokenizerInfo
    named: Mapping[str, xgrammar.Grammar | str] | None = None
    others: tuple[tuple[str, str, bool], ...] = ()
    vocabulary: Vocabulary | None = None

    def checked(self, vocabulary: Vocabulary) -> dict[str, Any]:
        check_text(self.text, "the grammar")
        named: Any = {} if self.named is None else self.named
        if not isinstance(named, Mapping):
            raise ArgumentError(f"named_grammars must be a dict, but is {shown(named)}")
        others: list[Any] = []
        for name, given in named.items():
            if not isinstance(name, str) or not isinstance(given, (str, xgrammar.Grammar)):
                raise ArgumentError(
                    "named_grammars must have names as keys, and texts or xgrammar.Grammar objects as "
                    f"values, but has {shown(name)}: {shown(given)}"
                )
            if isinstance(given, str):
                others.append((name, given, False))
            else:
                others.append((name, given.serialize_json(), True))
        return {"named": dict(named), "others": tuple(others), "vocabulary": vocabulary}

    def estimate(self) -> Estimate:
        texts = [text for _, text, is_made in self.others if not is_made]
        return schema_estimate("\n".join([self.text, *texts]), {})  # only JSON schemas inside take long

    def convert_here(self) -> xgrammar.Grammar:
        named: Any = self.named
        return xgrammar.Grammar.from_lark(self.text, tokenizer_info=self.tokenizer_info, named_grammars=named)

    def remote_call(self) -> tuple[str, list[Any]]:
        """The other process needs only the tokens that the text may name."""
        assert self.vocabulary is not None
        texts = "\n".join([self.text, *(text for _, text, _ in self.others)]).encode("utf-8", "surrogatepass")
        tokens = [
            (number, token.decode())
            for number, token in enumerate(self.vocabulary.tokens)
            if token[:1] == b"<" and token[-1:] == b">" and token in texts
        ]
        return "from_lark", [self.text, self.vocabulary.size, tokens, self.others]
