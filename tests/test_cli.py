"""The command line: what it prints, and which errors it reports.

Limits: of the screen of ``try``, the contents are compared, not the appearance.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hybrid import CompiledGrammar, GrammarCompiler, GrammarError, GrammarMatcher, Vocabulary
from hybrid.cli.commands import app
from hybrid.cli.grammar_source import read_grammar, read_named
from hybrid.cli.try_command import Board, application
from hybrid.files.container import pack, unpack

DIGITS = "root ::= [0-9]+"

BYTES = Vocabulary.from_bytes([*(bytes([value]) for value in range(256)), b""], stop_token_ids=256)


@pytest.fixture
def vocabulary(tmp_path: Path) -> str:
    """The path of a small vocabulary: all bytes and some words; the last id is the stop token."""
    tokens = [*(bytes([b]) for b in range(256)), b"12", b"true", b"12a", b""]
    path = tmp_path / "small.npz"
    Vocabulary.from_bytes(tokens, stop_token_ids=[len(tokens) - 1]).save(path)
    return str(path)


def run(*arguments: str, status: int = 0) -> str:
    """Run the program, which must end with a status by itself; return what it printed."""
    ended = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})
    assert ended.exit_code == status and isinstance(ended.exception, (SystemExit, type(None))), ended.output
    return ended.output


def test_classes_of_a_text_a_file_and_a_schema(vocabulary: str, tmp_path: Path) -> None:
    grammar, schema = tmp_path / "digits.gbnf", tmp_path / "schema.json"
    grammar.write_text(DIGITS)
    schema.write_text(json.dumps({"type": "boolean"}))
    for source, relation, words in (
        (DIGITS, "acceptance", ("1 classes for 260 ids", '"12"', "ms")),
        (str(grammar), "acceptance", ("1 classes for 260 ids",)),
        (str(schema), "displacement", ("displacement", '"true"')),
    ):
        printed = run("classes", source, "--vocabulary", vocabulary, "--relation", relation)
        assert all(word in printed for word in words)


def test_a_refusal_by_xgrammar_has_no_places_in_its_source(tmp_path: Path) -> None:
    assert "grammar_parser.cc" not in run("classes", 'root ::= "a" | "b', status=2)
    assert str(tmp_path) in run("inspect", str(tmp_path), status=2).replace("\n", "")


def test_how_files_are_read(tmp_path: Path) -> None:
    schema, data = tmp_path / "case.json", tmp_path / "bytes.gbnf"
    schema.write_text(json.dumps({"description": "", "schema": {"const": 7}, "tests": []}))
    assert '"7"' in str(read_grammar(str(schema))), "a file of a schema corpus is read for its schema"
    tests = [{"valid": True}, {"valid": False, "data": 8}, {"valid": True, "data": 7}]
    schema.write_text(json.dumps({"schema": {"const": 7}, "tests": tests}))
    assert read_named(str(schema)).document == b"7", "a test without data has no document"
    data.write_bytes(b"\xff\xfe")
    with pytest.raises(GrammarError, match="UTF-8"):
        read_grammar(str(data))


# --- Files with compiled grammars --------------------------------------------------------------------------

NESTED = 'root ::= "(" root ")" | [0-9]+'


@pytest.fixture
def grammars(tmp_path: Path) -> list[str]:
    """Files that hold a grammar, a schema, and neither."""
    (tmp_path / "nested.gbnf").write_text(NESTED)
    (tmp_path / "schema.json").write_text(json.dumps({"type": "boolean"}))
    (tmp_path / "broken.gbnf").write_text("root ::= (")
    return [str(tmp_path / name) for name in ("nested.gbnf", "schema.json", "broken.gbnf")]


def test_the_file_of_a_schema_names_what_is_not_enforced(
    vocabulary: str, grammars: list[str], tmp_path: Path
) -> None:
    Path(grammars[1]).write_text(json.dumps({"type": "array", "uniqueItems": True}))
    file = tmp_path / "schema.equimask"
    compiled = run("compile", grammars[1], "--vocabulary", vocabulary, "-o", str(file))
    for printed in (compiled, run("inspect", str(file))):
        assert "keywords that are not enforced: 1" in printed and "uniqueItems" in printed


def test_a_grammar_is_compiled_to_a_file_and_inspected(
    vocabulary: str, grammars: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "nested.equimask"
    told = run("compile", grammars[0], "--vocabulary", vocabulary, "-o", str(file))
    assert "nested.equimask: " in told and "classes" in told
    loaded = CompiledGrammar.load(file, Vocabulary.load(vocabulary))
    assert GrammarMatcher(loaded).accept_string("((12))")
    inspected = partial(run, "inspect", str(file))
    told = inspected()
    for part in (
        "classifier",
        "representatives",
        "pending_lengths",
        "bytes in the file",
        loaded.vocabulary.fingerprint,
    ):
        assert part in told
    assert "loaded in" not in told
    assert "loaded in" in inspected("--vocabulary", vocabulary)


def test_several_grammars_go_to_a_folder(vocabulary: str, grammars: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "out"
    arguments = ["--vocabulary", vocabulary, "-o", str(folder), "--n-jobs", "2"]
    assert "broken.gbnf: GrammarError" in run("compile", "builtin:json", *grammars, *arguments, status=1)
    names = {f"{name}.equimask" for name in ("builtin_json", "nested", "schema")}
    assert {file.name for file in folder.iterdir()} == names
    assert "nested.equimask" in run("compile", grammars[0], *arguments), "a folder takes one too"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["classes", "root ::= ("], "GrammarError"),
        (["classes", '{"type": 5}'], "GrammarError"),
        (["classes", "no-such-file.json"], "there is no file 'no-such-file.json'"),
        (["explain", "no/such/file.lark"], "there is no file 'no/such/file.lark'"),
        (["compile", "json.lark", "-o", "a"], "python -m hybrid grammars --show json.lark > json.lark"),
        (["classes", "OUT/a.lark"], "is in Lark's notation"),
        (["classes", 'one ::= "a"'], "or pass --root 'one'"),
        (["explain", "OUT/b.lark"], "pass --root 'one'"),
        (["try", "root ::= ("], "GrammarError"),
        (["classes", DIGITS, "--vocabulary", "no-such-file.npz"], "VocabularyError"),
        (["classes", DIGITS, "--relation", "sameness"], "must be 'acceptance' or 'displacement'"),
        (["compile", "root ::= (", "-o", "OUT/x.equimask"], "GrammarError"),
        (["compile", DIGITS, DIGITS, "-o", "OUT/x"], "is not a file; if the output is a folder"),
        (["compile", "builtin:json", "builtin:json", "-o", "OUT/x"], "several grammars have the name"),
        (["compile", DIGITS, "-o", "OUT/no/folder.equimask"], "FileNotFoundError"),
        (["explain", "root ::= ("], "GrammarError"),
        (["explain", DIGITS, "--text", "OUT/missing"], "ArgumentError"),
        (["explain", DIGITS, "--html", "OUT/no/page.html"], "FileNotFoundError"),
        (["inspect", "OUT/missing.equimask"], "ArtifactError"),
        (["inspect", "SPEC"], "this is not a compiled grammar"),
    ],
)
def test_refusals_say_why_and_end_with_status_2(
    arguments: list[str], message: str, vocabulary: str, tmp_path: Path
) -> None:
    (tmp_path / "a.lark").write_text('start: "a"')
    (tmp_path / "b.lark").write_text('one: "a"')
    words = [word.replace("OUT", str(tmp_path)).replace("SPEC", vocabulary) for word in arguments]
    if words[0] != "inspect" and "--vocabulary" not in words:
        words += ["--vocabulary", vocabulary]
    printed = run(*words, status=2)
    assert message in printed and "Traceback" not in printed
    assert not list(tmp_path.glob("*.equimask")) and not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"type": ' * 200_000, "nested too deeply"),
        (b'{"type": "integer"}\0', "it is not valid JSON: line 1, column 20"),
        (b'{"enum": [1%s]}' % (b"0" * 5_000), "digits"),
        (b"root ::= \xff", "cannot be read as UTF-8"),
        ("root ::= \udcff".encode("utf-8", "surrogatepass"), "cannot be read as UTF-8"),
        (b'root ::= \x1b[31m"a"', "GrammarError"),
        (b'{"type": "\\u001b[31m"}', "GrammarError"),
    ],
)
def test_broken_files_are_refused(content: bytes, message: str, vocabulary: str, tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(content)
    for command in (["classes"], ["explain"], ["compile", "-o", str(tmp_path / "x")]):
        printed = run(*command, str(file), "--vocabulary", vocabulary, status=2)
        assert message in printed and "\x1b" not in printed
    assert "GrammarError" in run("classes", "root \udcff", "--vocabulary", vocabulary, status=2)


def test_any_name_of_a_file_is_printed(vocabulary: str, tmp_path: Path) -> None:
    (folder := tmp_path / "a[").mkdir()
    for name in (b"\xff", b"b]"):
        schema = folder / os.fsdecode(name + b".json")
        schema.write_bytes(b"\xef\xbb\xbf" + b'{"type": "integer"}')  # with a byte order mark
        target, page = schema.with_suffix(".equimask"), schema.with_suffix(".html")
        run("compile", str(schema), "--vocabulary", vocabulary, "-o", str(target))
        run("inspect", str(target))
        run("explain", str(schema), "--vocabulary", vocabulary, "--html", str(page))
        assert page.exists()
    header, arrays = unpack(target.read_bytes(), 1 << 30)
    forged = folder / "[" / "b]"
    forged.parent.mkdir()
    forged.write_bytes(pack({**header, "reason": "\x1b[31m", "vocabulary": "\x1b[31m"}, arrays))
    assert "\x1b" not in run("inspect", str(forged))
    assert "\x1b" not in run("inspect", str(forged), "--vocabulary", vocabulary, status=2)


def test_a_grammar_is_refused_before_a_vocabulary_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hybrid.cli.artifacts.load_vocabulary", lambda spec: pytest.fail("it was loaded"))
    words = ["compile", "root ::= (", "--vocabulary", "a-name-on-the-hub", "-o", "x"]
    assert "GrammarError" in run(*words, status=2)


def test_formats_are_only_left_out_of_what_schemas_mean(vocabulary: str, tmp_path: Path) -> None:
    schema, file = '{"type": "string", "format": "date"}', str(tmp_path / "a")
    for command in (["explain"], ["try"], ["compile", "-o", file]):
        words = [*command, schema, "--vocabulary", vocabulary, "--no-formats"]
        assert "--no-formats needs --semantics json-schema" in run(*words, status=2)
    run(
        "compile",
        schema,
        "-o",
        file,
        "--vocabulary",
        vocabulary,
        "--no-formats",
        "--semantics",
        "json-schema",
    )


def test_a_document_that_was_not_checked_in_time_is_not_called_refused(
    vocabulary: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document, page = tmp_path / "a.txt", tmp_path / "a.html"
    document.write_text("1" * 3000)
    words = ["explain", DIGITS, "--text", str(document), "--vocabulary", vocabulary]
    run(*words)
    monkeypatch.setattr("hybrid.api.matcher.EXPLAINED_WITHIN", 1e-9)
    printed = run(*words, "--strategy", "classifier", status=2)
    assert "no time to check the rest" in printed and "refused" not in printed
    run(*words, "--html", str(page), status=2)
    assert "Not checked." in page.read_text() and "Refused." not in page.read_text()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no file that is always full")
def test_an_output_that_cannot_be_written_is_an_error_without_a_traceback() -> None:
    for command in (["grammars"], ["grammars", "--show", "json.lark"], ["--help"]):
        words = [sys.executable, "-m", "hybrid", *command]
        reading, writing = os.pipe()
        os.close(reading)
        ended = subprocess.run(words, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60)
        os.close(writing)
        assert (ended.returncode, ended.stderr) == (141, "")
        with open("/dev/full", "w") as full:
            ended = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
        assert ended.returncode == 2 and ended.stderr.startswith("the output cannot be written: ")
        assert len(ended.stderr.splitlines()) == 1


# --- The command `try`, driven through a pipe --------------------------------------------------------------

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "kind": {"enum": ["red", "green"]}},
    "required": ["name", "kind"],
}


@pytest.fixture
def board() -> Board:
    return Board(GrammarCompiler(BYTES).compile_json_schema(SCHEMA))


def text_of(board: Board) -> str:
    return "".join(text for _, text in board.fragments())


def test_a_board_tells_of_a_text(board: Board) -> None:
    assert "{" in text_of(board) and "refused" not in text_of(board)
    board.read('{"n')
    assert 'the rest of "name"' in text_of(board) and "Tab" in text_of(board) and board.n_read == 3
    board.read('{"näme"')
    assert board.n_read == 3
    assert "refused at line 1, column 4" in text_of(board) and 'the rest of "name"' in text_of(board)
    board.read('{"name": "ä", "kind": "green"}')
    assert "may end here" in text_of(board) and board.n_read == 30
    board.read("")
    assert board.n_read == 0 and "allowed so far" in text_of(board)


@pytest.fixture
def pipe() -> Iterator[Any]:
    """The keys of a session without a terminal."""
    pytest.importorskip("prompt_toolkit", reason="the extra try is not installed")
    from prompt_toolkit.application import create_app_session
    from prompt_toolkit.input import create_pipe_input
    from prompt_toolkit.output import DummyOutput

    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        yield keys


def test_keys_are_read_and_tab_writes_what_is_forced(board: Board, pipe: Any) -> None:
    pipe.send_text('{"\t: "x\r')  # a string cannot contain a line break
    pipe.send_text("\x7f" + 'y", "\t: "r\t}' + "\x03")
    assert application(board, "title").run() == '{"name": "xy", "kind": "red"}'
    assert board.refusal is None and board.told.may_end


def test_a_refused_text_stays_and_is_marked(board: Board, pipe: Any) -> None:
    pipe.send_text('{\r"x": 1\t' + "\x04")  # Tab does nothing if the text is refused
    made = application(board, "title")
    assert made.run() == '{\n"x": 1'
    window = next(one for one in made.layout.find_all_windows() if made.layout.has_focus(one))
    marked = {"": "", "class:refused": "", "class:beyond": ""}
    for style, text, *_ in window.content.create_content(80, 10).get_line(1):
        marked[style] = marked.get(style, "") + text
    assert [text.strip() for text in marked.values()][:3] == ['"', "x", '": 1']
