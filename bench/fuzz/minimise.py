"""Making what `bench.fuzz` found small: fewer steps, fewer tokens, a shorter grammar; and as a program.

What: `minimise` takes parts away while the same is wrong on the same strategy; `snippet` writes a program.
When: in the processes of `bench.fuzz`, after a case was found to be wrong.
Limits: greedy, the same for equal input, at most `TRIES` trials. A real vocabulary is exchanged for the few
tokens that matter, or kept as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from bench.fuzz.inputs import SPARSE, Case
from bench.fuzz.run import run_case, vocabulary_of
from bench.fuzz.walks import Finding, Step

TRIES = 500


class _Minimiser:
    """A case, and the finding that has to stay."""

    def __init__(self, case: Case, finding: Finding, real: dict[str, Any]) -> None:
        self.case, self.finding, self.real = case, finding, real
        self.tries = TRIES

    def keep(self, case: Case, steps: Sequence[Step]) -> bool:
        """Whether the same is wrong with these; they are kept then."""
        if self.tries <= 0:
            return False
        self.tries -= 1 if case.vocabulary == SPARSE else 25
        wanted = self.finding
        try:
            vocabulary = vocabulary_of(case, self.real)
            outcome = run_case(case, vocabulary, (wanted.strategy,), steps)
        except Exception:  # noqa: BLE001 - no case any more
            return False
        for found in outcome.findings:
            if found.what == wanted.what and found.strategy == wanted.strategy:
                self.case, self.finding = case, found
                return True
        return False

    def run(self) -> None:
        wanted = self.finding
        if not self.keep(self.case, wanted.steps):
            return
        if self.case.vocabulary != SPARSE:
            self.make_sparse()
        before = -1
        while before != self.size() and self.tries > 0:
            before = self.size()
            self.fewer_steps()
            self.fewer_options()
            if self.case.vocabulary == SPARSE:
                self.fewer_tokens()
            self.shorter_source()

    def size(self) -> int:
        return len(self.finding.steps) + len(self.case.tokens) + len(self.case.drawn.source)

    def fewer_steps(self) -> None:
        width = len(self.finding.steps)
        while width:
            place = 0
            while place < len(self.finding.steps):
                steps = self.finding.steps
                if not self.keep(self.case, (*steps[:place], *steps[place + width :])):
                    place += width
            width //= 2
        for place, step in enumerate(self.finding.steps):
            if step[0] == "mask" and step[1] != "torch":
                steps = list(self.finding.steps)
                steps[place] = ("mask", "torch")
                self.keep(self.case, steps)

    def fewer_options(self) -> None:
        for name in list(self.case.options):
            options = {key: value for key, value in self.case.options.items() if key != name}
            self.keep(replace(self.case, options=options), self.finding.steps)
        plain = replace(self.case, compiler={})
        if plain.compiler != self.case.compiler:
            self.keep(plain, self.finding.steps)
        if self.case.drawn.options:
            self.keep(replace(self.case, drawn=replace(self.case.drawn, options={})), self.finding.steps)

    def make_sparse(self) -> None:
        """The tokens of the steps, the wrong one, and a stop token; the ids become others."""
        vocabulary = self.real[self.case.vocabulary]
        named = [step[1] for step in self.finding.steps if step[0] == "token"]
        ids = list(dict.fromkeys([*named, self.finding.token, *vocabulary.stop_token_ids]))
        ids = [token for token in ids if token >= 0]
        if "Token(" in self.case.drawn.source:
            return
        number = {token: place for place, token in enumerate(ids)}
        steps = [("token", number[step[1]]) if step[0] == "token" else step for step in self.finding.steps]
        tokens = tuple(vocabulary.tokens[token] for token in ids)
        stops = tuple(number[token] for token in vocabulary.stop_token_ids)
        self.keep(replace(self.case, vocabulary=SPARSE, tokens=tokens, stops=stops), steps)

    def fewer_tokens(self) -> None:
        width = max(len(self.case.tokens) // 2, 1)
        while width:
            place = len(self.case.tokens) - width
            while place >= 0:
                self.drop(range(place, place + width))
                place -= width
            width //= 2

    def drop(self, gone: range) -> bool:
        """Leave ids out; those that a grammar names keep their numbers, without text."""
        case = self.case
        tokens = case.tokens
        overridden = case.options.get("override_stop_tokens", ())
        if any(token in gone for token in (*case.stops, *overridden)):
            return False
        if "Token(" in case.drawn.source and gone.start < case.drawn.ids:
            blank = tuple(b"" if token in gone else text for token, text in enumerate(tokens))
            return blank != tokens and self.keep(replace(case, tokens=blank), self.finding.steps)

        def moved(token: int) -> int:
            return token if token < gone.start else token - len(gone)

        steps = [
            ("token", moved(step[1])) if step[0] == "token" else step
            for step in self.finding.steps
            if step[0] != "token" or step[1] not in gone
        ]
        fewer = replace(
            case,
            tokens=(*tokens[: gone.start], *tokens[gone.stop :]),
            stops=tuple(map(moved, case.stops)),
            options={**case.options, "override_stop_tokens": list(map(moved, overridden))}
            if overridden
            else case.options,
        )
        return self.keep(fewer, steps)

    def shorter_source(self) -> None:
        drawn = self.case.drawn
        is_json = drawn.parser in ("json_schema", "structural_tag")
        changed = True
        while changed and self.tries > 0:
            changed = False
            for source in (_smaller_json if is_json else _smaller_text)(self.case.drawn.source):
                if source != self.case.drawn.source and self.keep(
                    self.case.with_source(source), self.finding.steps
                ):
                    changed = True
                    break


LEXEME = re.compile(r'"(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\]|\{[^}]*\}|\w+|::=|\s+|.', re.DOTALL)


def _smaller_text(source: str) -> Iterator[str]:
    """A text without one of its lines, parenthesised parts, alternatives, or lexemes; large parts first."""
    yield re.sub(" +", " ", source)
    lines = source.splitlines(keepends=True)
    if len(lines) > 1:
        for place in range(len(lines) - 1, -1, -1):
            yield "".join(lines[:place] + lines[place + 1 :])
    lexemes = LEXEME.findall(source)
    spans = []
    opened: list[int] = []
    begun: list[int] = []
    for place, lexeme in enumerate(lexemes):
        if lexeme == "(":
            opened.append(place)
        elif lexeme == ")" and opened:
            spans.append((opened.pop(), place + 1))
        elif lexeme in ("|", "::=", ":", "\n"):
            spans += [(start, place) for start in begun[-1:]]
            begun.append(place)
        if not lexeme.isspace():
            spans.append((place, place + 1))
    for start, end in sorted(set(spans), key=lambda span: (span[0] - span[1], span)):
        yield "".join(lexemes[:start] + lexemes[end:])
        if lexemes[start] == "(" and end - start > 2:
            yield "".join(lexemes[:start] + lexemes[start + 1 : end - 1] + lexemes[end:])


def _smaller_json(source: str) -> Iterator[str]:
    """A document without one of its members or items, or with one of them in its own place."""
    for smaller in _smaller_values(json.loads(source)):
        yield json.dumps(smaller)


def _smaller_values(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for key in value:
            yield {name: item for name, item in value.items() if name != key}
        yield from (item for item in value.values() if isinstance(item, dict))
        for key, item in value.items():
            for smaller in _smaller_values(item):
                yield {**value, key: smaller}
    elif isinstance(value, list):
        yield from (value[:place] + value[place + 1 :] for place in range(len(value)))
        yield from (item for item in value if isinstance(item, dict))
        for place, item in enumerate(value):
            for smaller in _smaller_values(item):
                yield [*value[:place], smaller, *value[place + 1 :]]
    elif isinstance(value, str) and len(value) > 1:
        yield value[: len(value) // 2]
        yield value[1:]
        yield value[:-1]


def minimise(case: Case, finding: Finding, real: dict[str, Any]) -> tuple[Case, Finding]:
    """A small case in which the same is wrong, and what is found in it.

    Args:
        case: the case.
        finding: what is wrong in it.
        real: vocabularies by SPEC.
    """
    found = _Minimiser(case, finding, real)
    found.run()
    return found.case, found.finding


CALLS = {
    "ebnf": "compile_grammar({source!r})",
    "lalr": "compile_lark({source!r})",
    "regex": "compile_regex({source!r})",
    "lark": "compile_grammar(xgrammar.Grammar.from_lark({source!r}))",
    "json_schema": "compile_json_schema({source!r}{options})",
    "structural_tag": "compile_structural_tag({source!r})",
}


def snippet(case: Case, finding: Finding) -> str:
    """A program that shows what is wrong."""
    lines = [
        "import xgrammar",
        "from hybrid import GrammarCompiler, GrammarMatcher, Vocabulary, allocate_token_bitmask",
        "from hybrid.cli.vocabulary_spec import load_vocabulary",
    ]
    if case.vocabulary == SPARSE:
        del lines[2]
        lines.append(
            f"vocabulary = Vocabulary.from_bytes({list(case.tokens)!r}, stop_token_ids={list(case.stops)!r})"
        )
    else:
        lines.append(f"vocabulary = load_vocabulary({case.vocabulary!r})")
    drawn = case.drawn
    if drawn.parser != "lark":
        del lines[0]
    options = "".join(f", {name}={value!r}" for name, value in drawn.options.items())
    compiler = "".join(f", {name}={value!r}" for name, value in case.compiler.items())
    call = CALLS[drawn.parser].format(source=drawn.source, options=options)
    lines.append(f"compiler = GrammarCompiler(vocabulary, strategy={finding.strategy!r}{compiler})")
    lines.append(f"compiled = compiler.{call}")
    if finding.what == "compile":
        return "\n".join([*lines, f"# {finding.note}"])
    given = "".join(f", {name}={value!r}" for name, value in case.options.items())
    lines.append(f"matcher = GrammarMatcher(compiled{given})")
    if finding.what in ("hang", "crash"):
        return "\n".join([*lines, "# and random steps"])
    lines += [_call(step) for step in finding.steps[:-1]]
    if finding.what == "bit":
        lines += [
            "bitmask = allocate_token_bitmask(1, vocabulary.size)",
            "matcher.fill_next_token_bitmask(bitmask)",
            f"print(bitmask[0, {finding.token >> 5}].item() >> {finding.token & 31} & 1)"
            f"  # is {int(finding.ours)}, should be {int(finding.truth)}",
        ]
    else:
        lines += [
            *map(_call, finding.steps[-1:]),
            f"# {finding.what}: {finding.ours!r}, should be {finding.truth!r} {finding.note}".rstrip(),
        ]
    return "\n".join(lines)


def _call(step: Step) -> str:
    """A step as the call that it is."""
    name, *arguments = step
    if name in ("token", "string"):
        return f"matcher.accept_{name}({arguments[0]!r})"
    if name == "rollback":
        return f"matcher.rollback({arguments[0]})"
    plain = {
        "reset": "matcher.reset()",
        "fork": "matcher, before = matcher.fork(), matcher",
        "back": "matcher = before",
        "promote": "compiled.promote()",
        "forced": "matcher.find_jump_forward_string()",
        "extras": "matcher.get_captures(), matcher.temperature",
        "mask": "matcher.fill_next_token_bitmask(allocate_token_bitmask(1, vocabulary.size))",
        "reload": "matcher.reset()  # of the grammar saved and loaded",
    }
    return plain[name]
