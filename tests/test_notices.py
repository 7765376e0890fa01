"""Notices about requests: bounded lines, hooks, and fields of answers."""

import json
import logging
import sys
from types import ModuleType
from unittest.mock import Mock

import pytest

from adapters.engines import notices
from adapters.engines.notices import MOST_CHARACTERS, MOST_NAMED, Notice, add_named_hook, notice_of, tell
from equivalence.errors import ArgumentError
from hybrid import GrammarCompiler, Vocabulary
from hybrid.xgrammar.relaxed import Narrowing, Relaxation

logger = logging.getLogger("tests.notices")
VOCABULARY = Vocabulary.from_bytes([*(bytes([byte]) for byte in range(256)), b""], stop_token_ids=256)
LOOSE = Relaxation("/properties/a/not", "not", "it is secret")
TIGHT = Narrowing("/properties/a/maxLength", "maxLength", "no escape can be written")


@pytest.fixture(autouse=True)
def hooks(monkeypatch):
    monkeypatch.setattr(notices, "_hooks", [])


def test_what_is_not_enforced_or_cannot_be_written_is_found_in_the_grammar():
    properties = {
        "a": {"type": "string", "pattern": "[0-9]"},
        "b": {"type": "null"},
        "c": {"type": "string", "not": {"const": "secret"}},
    }
    compiled = GrammarCompiler(VOCABULARY).compile_json_schema({"type": "object", "properties": properties})
    notice = notice_of("vllm", "r1", compiled, None)
    assert [(one.keyword, one.pointer) for one in notice.relaxed] == [("not", "/properties/c/not")]
    assert [(one.keyword, one.pointer) for one in notice.narrowed] == [("pattern", "/properties/a/pattern")]
    assert len(compiled.narrowed) == 3  # key order and undeclared keys are not reported
    del properties["c"]
    compiler = GrammarCompiler(VOCABULARY, semantics="json-schema")
    meant = compiler.compile_json_schema({"type": "object", "properties": properties})
    assert not notice_of("vllm", "r1", meant, None)


def test_a_line_says_all():
    assert Notice("vllm", "r", (LOOSE,), "too short", (TIGHT,) * 9).sentence == (
        "Request r: schema keywords that are not enforced: not at /properties/a/not; "
        "schema keywords that forbid some valid values: "
        + "maxLength at /properties/a/maxLength, "
        * 7
        + "maxLength at /properties/a/maxLength and 1 more; "
        "the text may be cut off at its token limit: too short"
    )
    assert "the schema as a whole" in Notice("vllm", "r", (Relaxation("", "", "too deep"),)).sentence


def test_a_line_is_bounded_and_has_nothing_else_of_a_schema(caplog):
    names = ["a\nERROR forged", "\x1b[31m", "x" * 9999, "é"]

    def many(one):
        return tuple(one._replace(pointer=f"/properties/{names[i % 4]}/{i}") for i in range(40))

    notice = Notice("vllm", "id\n" + "y" * 9999, many(LOOSE), "z" * 9999, many(TIGHT))
    with caplog.at_level(logging.INFO):
        tell(notice, logger)
    (record,) = caplog.records
    line = record.getMessage()
    assert record.levelno == logging.WARNING and line.isprintable()
    assert len(line) < (2 * MOST_NAMED + 3) * (MOST_CHARACTERS + 20)
    assert "secret" not in line and f"and {40 - MOST_NAMED} more" in line and "text may be cut off" in line


def test_nothing_is_told_where_there_is_nothing_to_tell(caplog):
    called: list[Notice] = []
    notices.add_hook(called.append)
    with caplog.at_level(logging.DEBUG):
        tell(Notice("vllm", "r"), logger)
    assert not called and not caplog.records


def test_hooks_get_the_notice_and_their_errors_change_nothing(caplog):
    called: list[Notice] = []
    notice = Notice("sglang", "r7", (LOOSE,))
    for hook in (Mock(side_effect=KeyError("operator")), called.append, called.append):
        notices.add_hook(hook)
    with caplog.at_level(logging.INFO):
        tell(notice, logger)
    assert called == [notice] and "The hook for notices failed for request r7" in caplog.text
    notices.remove_hook(called.append)
    notices.remove_hook(called.append)
    tell(notice, logger)
    assert len(called) == 1


def test_what_cannot_be_called_is_no_hook() -> None:
    with pytest.raises(ArgumentError, match="must be a function of a notice, but is 5"):
        notices.add_hook(5)


def test_a_keyword_at_the_root_is_named_in_words() -> None:
    notice = Notice("vllm", "r", (Relaxation("", "format", "is not checked"),))
    assert notice.sentence == "Request r: schema keywords that are not enforced: format at the root"


def test_a_hook_is_named_by_an_environment_variable(monkeypatch, tmp_path):
    module = ModuleType("operators_own")
    seen: list[Notice] = []
    vars(module).update(number=3, hook=seen.append)
    monkeypatch.setitem(sys.modules, "operators_own", module)
    add_named_hook("EQUIMASK_VLLM_NOTICES", None)
    assert not notices._hooks
    add_named_hook("EQUIMASK_VLLM_NOTICES", "operators_own:hook")
    tell(Notice("vllm", "r", (LOOSE,)), logger)
    assert len(seen) == 1
    (tmp_path / "operators_broken.py").write_text("raise RuntimeError('no database')")
    monkeypatch.syspath_prepend(tmp_path)
    for given in ("operators_broken:hook", "operators_own", "operators_own:", ":hook", "operators_own:gone",
                  "gone_away:hook", "operators_own:number", "operators own:hook", ""):  # fmt: skip
        with pytest.raises(ValueError, match=r"EQUIMASK_VLLM_NOTICES must be module:function"):
            add_named_hook("EQUIMASK_VLLM_NOTICES", given)


def test_a_field_of_an_answer_is_bounded_json():
    field = Notice("sglang", "r", (LOOSE,) * 99, "too short", (TIGHT,) * 98).as_field()
    assert json.loads(json.dumps(field)) == field
    assert field["n_not_enforced"] == 99 and field["n_not_writable"] == 98
    for name, one in (("not_enforced", LOOSE), ("not_writable", TIGHT)):
        told = {"keyword": one.keyword, "pointer": one.pointer, "reason": one.reason}
        assert field[name] == [told] * MOST_NAMED
    assert field["limit_error"] == "too short" and Notice("sglang", "r").as_field() == {}
