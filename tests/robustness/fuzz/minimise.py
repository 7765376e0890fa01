"""Making what was found small: fewer steps, fewer tokens, a shorter grammar; and as a program.

What: `minimise` takes parts away while the same is wrong on the same strategy; `snippet` writes a program.
When: in the processes of `tests.robustness.fuzz`, after a case was found to be wrong.
Limits: greedy, the same for equal input, at most `TRIES` trials. A real vocabulary is exchanged for the few
tokens that matter, or kept as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tests.robustness.fuzz.inputs import SPARSE, Case
from tests.robustness.fuzz.run import run_case, vocabulary_of
from tests.robustness.fuzz.walks import Finding, Step

TRIES = 500


def fewer(items: Iterable[Any], is_enough: Callable[[list[Any]], bool]) -> None:
    """Take runs of items away, long ones and late ones first, as long as what is left is enough."""
    left = list(items)
    width = len(left)
    while width:
        place = len(left) - width
        while place >= 0:
            without = left[:place] + left[place + width :]
            if is_enough(without):
                left = without
            place -= max(width // 2, 1)
        width //= 2


class _Minimiser:
    """A case, and the finding that has to stay."""

    def __init__(self, case: Case, finding: Finding, real: dict[str, Any]) -> None:
        self.case, self.finding, self.real = case, finding, real
        self.tries = TRIES

    def keep(self, case: Case, steps: Sequence[Step] | None = None) -> bool:
        """Whether the same is wrong with these (None: the steps it has); they are kept then."""
        if self.tries <= 0:
            return False
        self.tries -= 1 if case.vocabulary == SPARSE else 25
        wanted = self.finding
        try:
            vocabulary = vocabulary_of(case, self.real)
            outcome = run_case(case, vocabulary, (wanted.strategy,), wanted.steps if steps is None else steps)
        except Exception:  # noqa: BLE001 - no case any more
            return False
        for found in outcome.findings:
            if found.what == wanted.what and found.strategy == wanted.strategy:
                self.case, self.finding = case, found
                return True
        return False

    def run(self) -> None:
        if not self.keep(self.case):
            return
        if self.case.vocabulary != SPARSE:
            taken = [step[1] for step in self.finding.steps if step[0] == "token"]
            self.with_tokens([*taken, self.finding.token], self.case, self.finding.steps)
        before = -1
        while before != self.size() and self.tries > 0:
            before = self.size()
            fewer(self.finding.steps, lambda steps: self.keep(self.case, steps))
            plain = [("mask", "torch") if step[0] == "mask" else step for step in self.finding.steps]
            self.keep(self.case, plain)
            self.fewer_options()
            if self.case.vocabulary == SPARSE:
                case, steps = self.case, self.finding.steps
                fewer(range(len(case.tokens)), partial(self.with_tokens, case=case, steps=steps))
            self.shorter_source()

    def size(self) -> int:
        return len(self.finding.steps) + len(self.case.tokens) + len(self.case.drawn.source)

    def fewer_options(self) -> None:
        for name in list(self.case.options):
            options = {key: value for key, value in self.case.options.items() if key != name}
            self.keep(replace(self.case, options=options))
        if self.case.compiler:
            self.keep(replace(self.case, compiler={}))
        if self.case.drawn.options:
            self.keep(replace(self.case, drawn=replace(self.case.drawn, options={})))

    def with_tokens(self, ids: Iterable[int], case: Case, steps: Sequence[Step]) -> bool:
        """Keep some ids of a case, those that end texts, and those that a grammar names, which keep their
        numbers and may lose their text; steps of others go."""
        vocabulary = vocabulary_of(case, self.real)
        overridden = case.options.get("override_stop_tokens", ())
        chosen = {token for token in ids if token >= 0}.union(vocabulary.stop_token_ids, overridden)
        named = range(case.drawn.ids if "Token(" in case.drawn.source else 0)
        if len(named) > 100:  # of a real vocabulary
            return False
        number = {token: place for place, token in enumerate(sorted(chosen.union(named)))}
        options = dict(case.options)
        if overridden:
            options["override_stop_tokens"] = [number[token] for token in overridden]
        smaller = replace(
            case,
            vocabulary=SPARSE,
            tokens=tuple(vocabulary.tokens[token] if token in chosen else b"" for token in number),
            stops=tuple(number[token] for token in vocabulary.stop_token_ids),
            options=options,
        )
        left = [step for step in steps if step[0] != "token" or step[1] in number]
        moved = [("token", number[step[1]]) if step[0] == "token" else step for step in left]
        return self.keep(smaller, moved)

    def shorter_source(self) -> None:
        if self.case.drawn.parser in ("json_schema", "structural_tag"):
            changed = True
            while changed:
                smaller = map(json.dumps, _smaller_values(json.loads(self.case.drawn.source)))
                changed = any(self.keep(self.case.with_source(source)) for source in smaller)
            return

        def is_enough(parts: list[str]) -> bool:
            source = "".join(parts)
            return source != self.case.drawn.source and self.keep(self.case.with_source(source))

        fewer(self.case.drawn.source.splitlines(keepends=True), is_enough)
        fewer(LEXEME.findall(self.case.drawn.source), is_enough)
        for match in list(re.finditer(r"\(([^()]*)\)", self.case.drawn.source))[::-1]:
            source = self.case.drawn.source
            is_enough([source[: match.start()], match[1], source[match.end() :]])


LEXEME = re.compile(r'(?:"(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\]|\{[^}]*\}|\w+|::=|.)\s*', re.DOTALL)


def _smaller_values(value: Any) -> Iterator[Any]:
    """A document without one of its members or items, or with one of them in its own place."""
    if isinstance(value, (dict, list)):
        places = list(value) if isinstance(value, dict) else list(range(len(value)))
        for place in places:
            fewer_parts = value.copy()
            del fewer_parts[place]
            yield fewer_parts
        yield from (value[place] for place in places if isinstance(value[place], dict))
        for place in places:
            for smaller in _smaller_values(value[place]):
                other = value.copy()
                other[place] = smaller
                yield other
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
    "token": "matcher.accept_token({!r})",
    "string": "matcher.accept_string({!r})",
    "rollback": "matcher.rollback({})",
    "reset": "matcher.reset()",
    "fork": "matcher, before = matcher.fork(), matcher",
    "back": "matcher = before",
    "promote": "compiled.promote()",
    "forced": "matcher.find_jump_forward_string()",
    "extras": "matcher.get_captures(), matcher.temperature",
    "mask": "matcher.fill_next_token_bitmask(allocate_token_bitmask(1, vocabulary.size))",
    "reload": "matcher.reset()  # of the grammar saved and loaded",
}
"""Each step as the call that it is."""


def snippet(case: Case, finding: Finding) -> str:
    """A program that shows what is wrong."""
    for_grammar, for_compiler, for_matcher = (
        "".join(f", {key}={value!r}" for key, value in options.items())
        for options in (case.drawn.options, case.compiler, case.options)
    )
    vocabulary = f"load_vocabulary({case.vocabulary!r})"
    if case.vocabulary == SPARSE:
        vocabulary = f"Vocabulary.from_bytes({list(case.tokens)!r}, stop_token_ids={list(case.stops)!r})"
    source = repr(case.drawn.source)
    if case.drawn.parser == "lark":
        source = f"xgrammar.Grammar.from_lark({source})"
    lines = [
        "import xgrammar",
        "from hybrid import GrammarCompiler, GrammarMatcher, Vocabulary, allocate_token_bitmask",
        "from hybrid.cli.vocabulary_spec import load_vocabulary",
        f"vocabulary = {vocabulary}",
        f"compiler = GrammarCompiler(vocabulary, strategy={finding.strategy!r}{for_compiler})",
        f"compiled = compiler.{case.method}({source}{for_grammar})",
    ]
    if finding.what == "compile":
        return "\n".join([*lines, f"# {finding.note}"])
    lines.append(f"matcher = GrammarMatcher(compiled{for_matcher})")
    if finding.what in ("hang", "crash"):
        return "\n".join([*lines, "# and random steps"])
    calls = [CALLS[name].format(*arguments) for name, *arguments in finding.steps]
    if finding.what == "bit":
        calls[-1:] = [
            "bitmask = allocate_token_bitmask(1, vocabulary.size)",
            "matcher.fill_next_token_bitmask(bitmask)",
            f"print(bitmask[0, {finding.token >> 5}].item() >> {finding.token & 31} & 1)"
            f"  # is {int(finding.ours)}, should be {int(finding.truth)}",
        ]
    else:
        calls += [f"# {finding.what}: {finding.ours!r}, should be {finding.truth!r} {finding.note}".rstrip()]
    return "\n".join([*lines, *calls])
