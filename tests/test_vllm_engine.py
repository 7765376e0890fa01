"""A whole vLLM with a small random model generates the same ids with and without us; only if vLLM can run."""

from importlib.util import find_spec

import pytest

from tests.vllm_engine_run import MOST_TOKENS, run

pytestmark = [pytest.mark.slow, pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed")]


def asked(enabled: str, n_drafts: int, *options: str, **settings: str):
    others = {f"EQUIMASK_VLLM_{name}": value for name, value in settings.items()}
    return run(str(n_drafts), *options, EQUIMASK_VLLM=enabled, **others)


@pytest.mark.parametrize("n_drafts", [0, 3])
def test_the_ids_are_those_without_us_and_errors_end_one_request(n_drafts):
    theirs, ours = asked("0", n_drafts), asked("1", n_drafts)
    assert ours["ours"] and not theirs["ours"]
    assert ours["ids"] == theirs["ids"]
    assert sum(len(ids) for answers in ours["ids"].values() for ids in answers) > 200
    failed = [[reason == "error" for reason in reasons] for reasons in ours["reasons"]]
    assert failed == [[False, True, False]] * 2
    assert bool(ours["accepted"]) == bool(n_drafts) and ours["accepted"] == theirs["accepted"]


def test_drafts_of_grammars_save_passes_and_the_ids_stay():
    theirs, ours = asked("0", 0, "grammar"), asked("1", 8, "grammar")
    assert ours["ids"] == theirs["ids"]
    before, after = (sum(one["passes"].values()) for one in (theirs, ours))
    assert ours["accepted"] > 100 and 2 * after < before
    assert any("length" in ends for ends in theirs["ends"].values())


@pytest.mark.parametrize("semantics", ["xgrammar", "json-schema"])
def test_texts_end_in_time_with_drafts_and_without(semantics):
    settings = {"TOKEN_LIMITS": "1", "SEMANTICS": semantics}
    alone, drafted = (asked("1", n_drafts, "grammar", **settings) for n_drafts in (0, 8))
    assert alone["ids"] == drafted["ids"] and drafted["accepted"] > 100
    assert all(ends == ["stop"] * len(ends) for ends in alone["ends"].values()), alone["ends"]
    lengths = [len(ids) for answers in alone["ids"].values() for ids in answers]
    assert MOST_TOKENS - 8 < max(lengths) <= MOST_TOKENS, "some text had to be closed"
