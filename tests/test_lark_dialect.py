"""XGrammar's dialect of Lark, as the drop-in compiles it: within limits, and with the same result in another
process.
"""

from __future__ import annotations

import time
from typing import Any

import pytest
import xgrammar

import adapters.xgrammar as xgr
import hybrid
from equivalence.deadline import Deadline
from hybrid.compile.lark_dialect_request import LarkDialectRequest
from hybrid.guard import Guard
from hybrid.guard.estimate import Estimate

TEXTS = [bytes([byte]) for byte in range(128)] + [
    b"<t>",
    b"</s>",
    b"<|x|>",
    b"<t>",
    b"<\xc3>",
    "<é>".encode(),
]
INFO = xgrammar.TokenizerInfo(TEXTS, stop_token_ids=[129], vocab_size=144)
NAMED = {"n": 'start: "b" <t>', "m": xgrammar.Grammar.from_regex("c+")}
NESTED = "start: <|x|> %json " + '{"items":' * 400 + "{}" + "}" * 400


class Anywhere(LarkDialectRequest):
    """A request that never runs in this process."""

    def estimate(self) -> Estimate:
        return Estimate(1e3, True)


@pytest.mark.parametrize(
    "text",
    ['start: <|x|> "a" @n @m', "start: <é> <[3-5]>", "start: <[*]>", 'start: %json {"type": "array"} <t>'],
)
def test_another_process_converts_to_the_same_grammar(text: str) -> None:
    compilation = hybrid.GrammarCompiler(INFO)._compilation
    settings: Any = compilation.settings
    made = []
    for kind in (LarkDialectRequest, Anywhere):
        given = kind(text, INFO, NAMED, settings=settings)
        request: Any = given.normalised(compilation.vocabulary)
        made.append(request.parse(Guard(hybrid.Budget()), Deadline(60)))
    assert str(made[0]) == str(made[1])


def test_it_ends_within_the_seconds() -> None:
    """It took 10 s: XGrammar converted the schema in this process, whatever the budget."""
    compiler = xgr.GrammarCompiler(INFO, budget=hybrid.Budget(seconds=1))
    began = time.perf_counter()
    for options in ({"lark_string": NESTED}, {"lark_string": "start: @n", "named_grammars": {"n": NESTED}}):
        with pytest.raises(hybrid.BudgetExceeded, match="Lark grammar"):
            compiler.compile_lark(**options)
    assert time.perf_counter() - began < 6


def test_equal_calls_share_a_grammar() -> None:
    compiler = xgr.GrammarCompiler(INFO)
    first = compiler.compile_lark("start: @n", named_grammars=dict(NAMED))
    assert compiler.compile_lark("start: @n", named_grammars=dict(NAMED)) == first
    assert compiler.compile_lark("start: @n", named_grammars={"n": 'start: "c"'}) != first
