"""Each kind of grammar: what tells its calls apart, who parses it, how it is compiled.

What: `Kinds` has a method for each that `GrammarCompiler` compiles, at once or in the background. It gets the
deadline of the call, and asks memory and disk (`hybrid.compile.obtaining`) before XGrammar or Lark parses
anything.
When: one for each compiler; thread-safe.
Limits: the methods of the compiler say what arguments mean.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import xgrammar

from equivalence import GrammarError, StrategyError
from equivalence.arguments import flag, shown
from equivalence.deadline import Deadline
from hybrid.api.compiled import CompiledGrammar
from hybrid.compile.compilation import Compilation
from hybrid.compile.obtaining import Obtaining
from hybrid.lark import LarkGrammar
from hybrid.xgrammar.relaxed import SchemaText, describe, schema_text


class Kinds:
    """The grammars of one compiler, by their kind.

    Args:
        compilation: compiles.
        obtaining: knows what need not be compiled.
        strategy: of the compiler.
    """

    def __init__(self, compilation: Compilation, obtaining: Obtaining, strategy: str) -> None:
        self._compilation, self._obtaining, self._strategy = compilation, obtaining, strategy
        self._guard = compilation.guard

    def grammar(
        self, deadline: Deadline, grammar: str | xgrammar.Grammar, root_rule_name: str, static: bool
    ) -> CompiledGrammar:
        """A text of rules, or what XGrammar has parsed."""
        if isinstance(grammar, xgrammar.Grammar):
            key = ("grammar", grammar.serialize_json())
            return self._compile(deadline, key, lambda _: grammar, static=static)
        _check_text(grammar, "the grammar", "text or an xgrammar.Grammar")
        _check_text(root_rule_name, "root_rule_name")
        return self._compile(
            deadline,
            ("ebnf", grammar, root_rule_name),
            lambda deadline: self._guard.ebnf(grammar, root_rule_name, deadline),
            static=static,
        )

    def json_schema(
        self, deadline: Deadline, schema: Any, strict: bool, static: bool, options: dict[str, Any]
    ) -> CompiledGrammar:
        """A JSON schema."""
        strict = flag(strict, "strict")
        if not isinstance(schema, (str, type)):
            try:
                schema = json.dumps(schema)
            except (TypeError, ValueError, RecursionError) as error:
                raise GrammarError(
                    f"the schema cannot be written as JSON ({error}); allowed are JSON text, what json.dumps "
                    "takes, and a pydantic model class"
                ) from error
        key = ("json_schema", schema, tuple(sorted((k, repr(v)) for k, v in options.items())))
        compiled = self._compile(
            deadline,
            key,
            lambda deadline: self._guard.json_schema(schema, options, deadline),
            lambda: schema_text(schema, options),
            static=static,
        )
        if strict:
            deadline.check("looking for keywords that XGrammar leaves out")
            if compiled.relaxed:
                raise GrammarError(describe(compiled.relaxed))
        return compiled

    def builtin_json_grammar(self, deadline: Deadline, static: bool) -> CompiledGrammar:
        """All JSON."""
        return self._compile(
            deadline, ("builtin_json",), lambda _: xgrammar.Grammar.builtin_json_grammar(), static=static
        )

    def regex(self, deadline: Deadline, regex: str, static: bool) -> CompiledGrammar:
        """A regular expression."""
        _check_text(regex, "the regular expression")
        return self._compile(
            deadline, ("regex", regex), lambda deadline: self._guard.regex(regex, deadline), static=static
        )

    def structural_tag(self, deadline: Deadline, static: bool, *arguments: Any) -> CompiledGrammar:
        """A structural tag."""
        grammar, _ = self._compilation.parse(
            "structural tag",
            lambda deadline: self._guard.structural_tag(arguments, deadline),
            deadline,
        )
        # a tag may hold model classes, which only the grammar made of them tells apart
        return self.grammar(deadline, grammar, "root", static)

    def lark(self, deadline: Deadline, grammar: str, start: str) -> CompiledGrammar:
        """A grammar in Lark's notation."""
        if self._strategy not in ("auto", "classifier"):
            raise StrategyError(
                f"strategy is {self._strategy!r}, which runs in XGrammar and has no lexer; allowed for Lark "
                "grammars are 'auto' and 'classifier' (or compile_grammar(xgrammar.Grammar.from_lark(text)))"
            )
        _check_text(grammar, "the grammar")
        _check_text(start, "start")
        return self._obtaining.get(
            deadline,
            ("lark", grammar, start),
            lambda deadline: self._compilation.on_lark(LarkGrammar(grammar, start), deadline),
        )

    def _compile(
        self,
        deadline: Deadline,
        key: Any,
        parse: Callable[[Deadline], xgrammar.Grammar],
        read_schema: Callable[[], SchemaText] | None = None,
        *,
        static: bool,
    ) -> CompiledGrammar:
        def decided(deadline: Deadline) -> CompiledGrammar:
            grammar, seconds = self._compilation.parse(key[0].replace("_", " "), parse, deadline)
            compiled = self._compilation.decide(grammar, seconds, deadline)
            # before anybody else sees it: the folder on disk keeps the schema too
            return compiled if read_schema is None else replace(compiled, schema=read_schema())

        return self._obtaining.get(deadline, key, decided, flag(static, "static"))


def _check_text(value: object, name: str, allowed: str = "text") -> None:
    """Raise `GrammarError` for what is no text: it might not even tell calls apart."""
    if not isinstance(value, str):
        raise GrammarError(f"{name} is {shown(value)}, allowed is {allowed}")
