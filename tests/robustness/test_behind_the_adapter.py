"""XGrammar's tests get the adapter wherever they import XGrammar, and their outcomes are counted."""

from pathlib import Path

from tests.robustness.behind_the_adapter import run, worse

MADE = """
import xgrammar
import xgrammar as xgr


def test_who_is_asked():
    from xgrammar.testing import _is_grammar_accept_string
    assert xgrammar is xgr and xgr.__name__ == "adapters.xgrammar"
    assert _is_grammar_accept_string.__module__.startswith("adapters.")
    assert _is_grammar_accept_string('root ::= "a"', "a")
    compiled = xgr.GrammarCompiler(xgr.TokenizerInfo([])).compile_grammar('root ::= "a"')
    assert compiled.strategy == "engine"


def test_that_fails():
    assert not "one line"
"""


def test_worse_is_what_only_xgrammar_passes() -> None:
    plain = {"a": ("passed", ""), "b": ("passed", ""), "c": ("failure", ""), "d": ("passed", "")}
    ours = {"a": ("passed", ""), "b": ("failure", "why"), "c": ("failure", "")}
    assert worse(plain, ours) == {"b": "failure why", "d": "it was not run"}


def test_made_tests_run_on_the_strategy_that_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "test_made.py").write_text(MADE)
    passed, failed = run(tmp_path, "engine").values()
    assert passed == ("passed", "") and failed[0] == "failure" and "one line" in failed[1]
