"""``python -m hybrid try``: what it shows while a text is typed, and the screen, driven through a pipe.

What: `Board` alone, and prompt_toolkit's application with keys from a pipe and no terminal.
When: after a change of `hybrid.cli.try_command`.
Limits: the contents of the screen are compared, not its appearance.
"""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from equivalence import Vocabulary
from hybrid import GrammarCompiler
from hybrid.cli.commands import app
from hybrid.cli.try_command import Board, application

VOCABULARY = Vocabulary.from_bytes([bytes([value]) for value in range(256)] + [b""], stop_token_ids=256)
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "kind": {"enum": ["red", "green"]}},
    "required": ["name", "kind"],
}


@pytest.fixture
def board() -> Board:
    return Board(GrammarCompiler(VOCABULARY).compile_json_schema(SCHEMA))


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


def test_keys_are_read_and_tab_writes_what_is_forced(board: Board) -> None:
    pytest.importorskip("prompt_toolkit", reason="the extra try is not installed")
    from prompt_toolkit.application import create_app_session
    from prompt_toolkit.input import create_pipe_input
    from prompt_toolkit.output import DummyOutput

    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        pipe.send_text('{"\t: "x\r')  # a string cannot contain a line break
        pipe.send_text("\x7f" + 'y", "\t: "r\t}' + "\x03")
        assert application(board, "title").run() == '{"name": "xy", "kind": "red"}'
    assert board.refusal is None and board.told.may_end


def test_a_refused_text_stays_and_is_marked(board: Board) -> None:
    pytest.importorskip("prompt_toolkit", reason="the extra try is not installed")
    from prompt_toolkit.application import create_app_session
    from prompt_toolkit.input import create_pipe_input
    from prompt_toolkit.output import DummyOutput

    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        pipe.send_text('{\r"x": 1\t' + "\x04")  # Tab does nothing if the text is refused
        made = application(board, "title")
        assert made.run() == '{\n"x": 1'
        window = next(one for one in made.layout.find_all_windows() if made.layout.has_focus(one))
        content = window.content.create_content(80, 10)
        styles = ["".join(text for style, text, *_ in content.get_line(1) if style == name) for name in (
            "", "class:refused", "class:beyond")]  # fmt: skip
    assert styles[0].strip() == '"' and styles[1] == "x" and styles[2].strip() == '": 1'


def test_a_grammar_that_is_refused() -> None:
    result = CliRunner().invoke(app, ["try", "root ::= ("], env={"COLUMNS": "200"})
    assert result.exit_code == 2 and "GrammarError" in result.output
