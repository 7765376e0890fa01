"""Errors of the drop-in are those that programs written for XGrammar catch; and what it passes on to
XGrammar.

When: after changes of what `adapters.xgrammar` raises, or passes to XGrammar.
Limits: masks and arguments are tested in `tests.test_adapters_xgrammar`.
"""

from functools import partial
from typing import Any

import pytest
import torch
import xgrammar
from pydantic import BaseModel

import adapters.xgrammar as xgr
import hybrid
from equivalence import HybridError
from tests.test_adapters_xgrammar import BUDGET_LARK, EBNF, INFO, LARK, compiled, plainly

NOWHERE = {"type": "structural_tag", "format": {"type": "token", "token": "<nowhere>"}}
MASK = torch.zeros((1, 9), dtype=torch.int32)

OF_COMPILERS: dict[str, Any] = {
    "schema": lambda compiler: compiler.compile_json_schema("{"),
    "schema of another type": lambda compiler: compiler.compile_json_schema(5),
    "indent": lambda compiler: compiler.compile_json_schema("{}", indent="2"),
    "white space": lambda compiler: compiler.compile_json_schema("{}", max_whitespace_cnt="1"),
    "regex": lambda compiler: compiler.compile_regex("("),
    "regex of another type": lambda compiler: compiler.compile_regex(5),
    "deep regex": lambda compiler: compiler.compile_regex("(" * 1500 + "a" + ")" * 1499),
    "ebnf": lambda compiler: compiler.compile_grammar("root ::= x"),
    "grammar of another type": lambda compiler: compiler.compile_grammar(5),
    "root rule": lambda compiler: compiler.compile_grammar(EBNF, root_rule_name=None),
    "named grammars": lambda compiler: compiler.compile_lark('start: "a"', named_grammars="x"),
    "named by numbers": lambda compiler: compiler.compile_lark('start: "a"', named_grammars={1: LARK}),
    "a number by name": lambda compiler: compiler.compile_lark("start: @n", named_grammars={"n": 5}),
    "named in pairs": lambda compiler: compiler.compile_lark("start: @n", named_grammars=[("n", LARK)]),
    "lark": lambda compiler: compiler.compile_lark("x"),
    "lark of another type": lambda compiler: compiler.compile_lark(5),
    "tag": lambda compiler: compiler.compile_structural_tag("{"),
    "no tag": lambda compiler: compiler.compile_structural_tag(5),
    "no tag by name": lambda compiler: compiler.compile_structural_tag(structural_tag=5),
    "no triggers": lambda compiler: compiler.compile_structural_tag(tags=[], triggers=5),
    "no arguments": lambda compiler: compiler.compile_structural_tag(),
    "a token that there is not": lambda compiler: compiler.compile_structural_tag(NOWHERE),
}
OF_CLASSES: dict[str, Any] = {
    "tokenizer": lambda module: module.GrammarCompiler("llama"),
    "threads that are no number": lambda module: module.GrammarCompiler(INFO, max_threads=float("nan")),
    "cache": lambda module: module.GrammarCompiler(INFO, cache_limit_bytes=-5),
    "threads": lambda module: module.BatchGrammarMatcher(0),
    "compiled": lambda module: module.GrammarMatcher(INFO),
}
OF_MATCHERS: dict[str, Any] = {
    "token": lambda matcher: matcher().accept_token("a"),
    "text": lambda matcher: matcher().accept_string(5),
    "rollback": lambda matcher: matcher().rollback(1),
    "steps in text": lambda matcher: matcher().rollback("1"),
    "no bitmask": lambda matcher: matcher().fill_next_token_bitmask(None),
    "a list": lambda matcher: matcher().fill_next_token_bitmask([0]),
    "bitmask": lambda matcher: matcher().fill_next_token_bitmask(MASK.long()),
    "width": lambda matcher: matcher().fill_next_token_bitmask(MASK[:, 1:].contiguous()),
    "row": lambda matcher: matcher().fill_next_token_bitmask(MASK, 1),
    "row in text": lambda matcher: matcher().fill_next_token_bitmask(MASK, "0"),
    "temperature": lambda matcher: matcher(default_temperature=-1.0),
    "stop token": lambda matcher: matcher(override_stop_tokens=[999]),
    "no stop token": lambda matcher: matcher(override_stop_tokens=[]),
    "stop tokens in text": lambda matcher: matcher(override_stop_tokens="ab"),
    "half a stop token": lambda matcher: matcher(override_stop_tokens=[0.5]),
    "most steps back": lambda matcher: matcher(max_rollback_tokens="a"),
}


@pytest.mark.parametrize("name", [*OF_COMPILERS, *OF_CLASSES, *OF_MATCHERS])
def test_errors_are_of_a_type_that_programs_for_xgrammar_catch(name: str) -> None:
    def call(module: Any) -> None:
        if name in OF_COMPILERS:
            OF_COMPILERS[name](module.GrammarCompiler(INFO))
        elif name in OF_CLASSES:
            OF_CLASSES[name](module)
        else:
            OF_MATCHERS[name](partial(module.GrammarMatcher, plainly("ebnf")))

    with pytest.raises(Exception) as theirs:
        call(xgrammar)
    with pytest.raises(theirs.type) as ours:
        call(xgr)
    assert ours.value.__cause__ is not ours.value
    assert isinstance(ours.value, HybridError) or name not in OF_MATCHERS


def test_errors_of_ours_stay_what_they_are() -> None:
    compiler = xgr.GrammarCompiler(INFO, budget=hybrid.Budget(seconds=1e-9), on_budget="raise")
    with pytest.raises(hybrid.BudgetExceeded) as found:
        compiler.compile_grammar(EBNF)
    assert isinstance(found.value, RuntimeError)


# --- what passes through, and what is asked for --------------------------------------------------------


def test_what_a_strategy_refuses_runs_in_xgrammar() -> None:
    made = compiled("lark with a budget", "representatives")
    assert made.strategy == "engine"
    why = "runs in plain XGrammar: strategy='representatives' cannot run it (the grammar uses max_tokens, "
    assert made.hybrid.reason.startswith(why)
    with pytest.raises(hybrid.UnsupportedGrammar):
        hybrid.GrammarCompiler(INFO, strategy="representatives").compile_grammar(
            xgrammar.Grammar.from_lark(BUDGET_LARK)
        )


def test_options_for_programs_that_give_none() -> None:
    try:
        xgr.configure(strategy="engine")
        assert xgr.GrammarCompiler(INFO).compile_grammar(EBNF).strategy == "engine"
        assert xgr.wrap(plainly("ebnf")).strategy == "engine"
        assert xgr.GrammarCompiler(INFO, strategy="classifier").compile_grammar(EBNF).strategy == "classifier"
    finally:
        xgr.configure()
    with pytest.raises(TypeError, match="GrammarCompiler got an unexpected keyword argument 'stategy'"):
        xgr.configure(stategy="engine")
    assert xgr.GrammarCompiler(INFO).compile_grammar(EBNF).strategy == "classifier"


def test_models_and_older_tags() -> None:
    class Person(BaseModel):
        name: str
        age: int

    item = xgr.StructuralTagItem(begin="<tool>", schema=Person, end="</tool>")
    older = xgr.StructuralTag.from_legacy_structural_tag([item], ["<tool>"])
    for module in (xgr, xgrammar):
        compiler = module.GrammarCompiler(INFO)
        for made in (
            compiler.compile_structural_tag([item], ["<tool>"]),
            compiler.compile_structural_tag(tags=[item], triggers=["<tool>"]),
            compiler.compile_structural_tag(tags=(item,), triggers=("<tool>",)),
            compiler.compile_structural_tag(older),
        ):
            matcher = module.GrammarMatcher(made)
            assert matcher.accept_string('so: <tool>{"name": "x", "age": 3}</tool>')
            assert matcher.is_completed() and not matcher.accept_string('<tool>{"age"')
        matcher = module.GrammarMatcher(compiler.compile_json_schema(Person))
        assert matcher.accept_string('{"name": "x", "age": 3}') and matcher.is_completed()


def test_helpers_of_xgrammar_make_matchers_of_ours() -> None:
    assert type(xgr.testing._get_matcher_from_grammar(EBNF)) is xgr.GrammarMatcher
    assert xgr.testing._is_grammar_accept_string(EBNF, "ab,12")
    assert not xgr.testing._is_grammar_accept_string(EBNF, "ab,")
    assert xgr.testing._is_grammar_accept_string(EBNF, "ab,", require_termination=False)
    matcher = xgr.testing._get_matcher_from_grammar_and_tokenizer_info(EBNF, INFO)
    assert "ClassifierFollower" in matcher._debug_print_internal_state()
    engine = xgr.GrammarMatcher(compiled("ebnf", "engine"))
    assert "ParserState" in engine._debug_print_internal_state()
