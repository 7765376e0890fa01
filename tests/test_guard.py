"""XGrammar's own code in a process that can be ended: deadlines, crashes, memory, forks, and estimates.

What: `hybrid.guard.worker` with tasks that end in every way; what `hybrid.guard` does without such a process;
estimates recognise constructs that were found to be slow, in every spelling.
When: after any change of `hybrid.guard`.
Limits: Linux; nothing here measures speed, except for tasks that would take a minute if they were not ended.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import xgrammar

from equivalence import BudgetExceeded, GrammarError
from equivalence.deadline import Deadline
from equivalence.network import serial
from equivalence.network.grammar_reader import read_grammar
from equivalence.network.optimised import Wanted, optimised_text
from hybrid import Budget, GrammarCompiler, Vocabulary
from hybrid.compile.schema_request import JsonSchemaRequest
from hybrid.compile.settings import Settings
from hybrid.guard import Guard, worker
from hybrid.guard.estimate import grammar_estimate, schema_estimate
from hybrid.guard.process import Library
from hybrid.guard.recursion import ambiguous_calls, beginnings, count_calls
from hybrid.guard.worker import Task
from tests.robustness import hostile_schemas

pytestmark = pytest.mark.skipif(not worker.is_available(), reason="needs Linux")

SLOW = json.dumps({"type": "string", "pattern": "^[a-z]{1,20000}$"})  # a minute
QUICK = '{"type": "integer"}'
LINKS = {
    f"d{n}": {"type": "object", "properties": {"a": {"$ref": f"#/$defs/d{(n + 1) % 8000}"}}}
    for n in range(8000)
}
DEEP = json.dumps({"$defs": LINKS, "$ref": "#/$defs/d0"})


def schema_request(text: str) -> JsonSchemaRequest:
    return JsonSchemaRequest(text, settings=Settings("auto", Budget()))


def schema_task(text: str, **bounds: Any) -> Task:
    function, arguments = schema_request(text).remote_call()
    return Task({"task": "convert", "function": function, "arguments": arguments}, **bounds)


def pid() -> int:
    return worker._process._process.pid


def children(process: int) -> list[int]:
    done = subprocess.run(["ps", "--ppid", str(process), "-o", "pid="], capture_output=True, text=True)
    return [int(line) for line in done.stdout.split()]


def is_there(process: int) -> bool:
    return os.path.exists(f"/proc/{process}")


@pytest.fixture
def process() -> Iterator[int]:
    """The id of a new process that is already running, so that a test takes as long as its task."""
    worker.close()
    works()
    yield pid()
    worker.close()


def works() -> None:
    here = xgrammar.Grammar.from_json_schema(QUICK).serialize_json()
    assert worker.run(schema_task(QUICK), Deadline(30), "a quick task").decode() == here


def test_a_child_is_ended_at_the_deadline(process: int) -> None:
    began = time.monotonic()
    with pytest.raises(BudgetExceeded, match="time limit was reached in this phase: a slow task"):
        worker.run(schema_task(SLOW), Deadline(0.2), "a slow task")
    while children(process):  # the signal to end takes a moment
        assert time.monotonic() - began < 20
        time.sleep(0.01)
    works()
    assert pid() == process


def test_a_child_is_ended_when_somebody_cancels(process: int) -> None:
    deadline = Deadline()
    threading.Timer(0.2, deadline.cancel).start()
    with pytest.raises(BudgetExceeded, match="cancelled in this phase: a slow task"):
        worker.run(schema_task(SLOW), deadline, "a slow task")
    works()


LARGE = json.dumps({"enum": [f"value {number}" for number in range(200_000)]})


@pytest.mark.parametrize(
    ("text", "bounds", "error", "message"),
    [
        (DEEP, {}, worker.Died, "SIG"),
        (LARGE, {"memory_bytes": 30 * 2**20}, worker.OutOfMemory, "more than 30 MiB"),
        (QUICK, {"most_bytes": 100}, worker.TooLarge, r"\d{3} bytes"),
        ('{"type": "nonsense"}', {}, worker.Refused, "type"),
        (f'{{"const": {"9" * 5000}}}', {}, worker.Refused, "without a message"),
    ],
    ids=["crash", "memory", "answer", "refused", "no message"],
)
def test_a_child_that_fails_ends_alone(
    process: int, text: str, bounds: dict[str, int], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        worker.run(schema_task(text, **bounds), Deadline(60), "a task")
    works()
    assert pid() == process


def test_closing_ends_the_process_and_the_next_task_starts_another(process: int) -> None:
    worker.close()
    assert not is_there(process)
    works()
    assert pid() != process


def test_the_last_guard_that_closes_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hybrid.guard._users", weakref.WeakSet())  # other tests use it too
    slow = json.dumps({"enum": ["x" * 50 for _ in range(30_000)]})
    first, second = Guard(Budget()), Guard(Budget())
    for guard in (first, second):
        guard.convert(schema_request(slow), Deadline(60))
    used = pid()
    first.close()
    assert is_there(used)
    second.close()
    assert not is_there(used)


STARTED_EARLY = """
import sys, time
from equivalence import Vocabulary
from hybrid import GrammarCompiler
from hybrid.guard import worker

compiler = GrammarCompiler(Vocabulary.from_bytes([b"a", b""], stop_token_ids=1))
while worker._process is None:
    time.sleep(0.001)
while not worker._process.is_ready:
    time.sleep(0.05)
assert not worker._process.failure
process = worker._process._process
compiler.close()
assert worker._process is None and process.poll() is not None
for _ in range(3):
    GrammarCompiler(Vocabulary.from_bytes([b"a", b""], stop_token_ids=1)).close()
print("done")
"""


def test_a_compiler_starts_the_process_in_the_background_and_closes_it() -> None:
    ran = subprocess.run([sys.executable, "-c", STARTED_EARLY], capture_output=True, text=True, timeout=120)
    assert ran.stdout == "done\n" and not ran.stderr


def test_a_process_that_was_killed_is_replaced(process: int) -> None:
    os.kill(process, signal.SIGKILL)
    worker._process._process.wait(10)
    works()
    assert pid() != process


@pytest.mark.parametrize("how", ["killed", "closed"])
def test_a_task_whose_process_ends_begins_again(process: int, how: str) -> None:
    """Another compiler may have closed it, or the system may have killed it for memory."""
    os.kill(process, signal.SIGSTOP)
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(works)
        time.sleep(0.3)
        assert not done.done()
        if how == "killed":
            os.kill(process, signal.SIGKILL)
        else:
            worker.close()
        done.result()
    assert pid() != process


def test_blocked_signals_do_not_hide_the_end_of_a_child() -> None:
    """A server may block all signals before it starts its threads. The process inherits that."""
    worker.close()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    try:
        with pytest.raises(worker.Died, match="SIG"):
            worker.run(schema_task(DEEP), Deadline(60), "a task")
        assert not children(pid())
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        worker.close()


def test_an_error_says_if_the_process_had_not_started() -> None:
    worker.close()
    with pytest.raises(BudgetExceeded, match="in this phase: the start of another process, for a task"):
        worker.run(schema_task(QUICK), Deadline(0.01), "a task")
    worker.close()


def test_many_threads_take_turns() -> None:
    n_threads = 2 * worker.children()
    with ThreadPoolExecutor(n_threads) as pool:
        for done in [pool.submit(works) for _ in range(5 * n_threads)]:
            done.result()


# --- What the guard decides --------------------------------------------------------------------------------


def test_what_is_quick_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "run", Mock(side_effect=AssertionError("in another process")))
    guard = Guard(Budget())
    here = xgrammar.Grammar.from_json_schema(QUICK).serialize_json()
    assert guard.convert(schema_request(QUICK), Deadline(1)).serialize_json() == here
    wanted = Wanted(here, 10**6)
    assert guard.optimise(Deadline(1))(wanted) == optimised_text(wanted)
    with pytest.raises(AssertionError, match="another process"):
        guard.convert(schema_request(SLOW), Deadline(1))


def test_without_a_process_estimates_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "is_available", lambda: False)
    guard = Guard(Budget())
    with pytest.raises(BudgetExceeded, match=r"would take about .* s, but only .* are left"):
        guard.convert(schema_request(SLOW), Deadline(1))
    with pytest.raises(GrammarError, match="might crash"):
        guard.convert(schema_request(DEEP), Deadline(1))


@pytest.mark.parametrize("lacking", ["files", "threads"])
def test_without_files_or_threads_estimates_decide(process: int, lacking: str) -> None:
    with pytest.MonkeyPatch.context() as changed:
        if lacking == "files":
            changed.setattr("socket.socketpair", Mock(side_effect=OSError(24, "Too many open files")))
        else:
            worker.close()
            changed.setattr(
                threading.Thread, "start", Mock(side_effect=RuntimeError("can't start new thread"))
            )
        with pytest.raises(BudgetExceeded, match=r"cannot run in another process.*(open files|new thread)"):
            Guard(Budget()).convert(schema_request(SLOW), Deadline(1))
        Guard(Budget()).lark('start: "a"', "start", Deadline(60))
    works()


def test_errors_of_the_process_are_not_wrapped_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "run", Mock(side_effect=worker.Died(11)))
    wanted = Wanted(xgrammar.Grammar.from_ebnf('root ::= "a"').serialize_json(), 1000, "(" * 5000)
    with pytest.raises(GrammarError, match=r"^XGrammar's automata of the grammar crashes"):
        Guard(Budget()).optimise(Deadline(60))(wanted)


def test_where_no_clock_decides_estimates_refuse() -> None:
    with pytest.raises(BudgetExceeded, match=r"would take about .* s, but the limit is 1.0"):
        Guard(Budget(seconds=None), refuse_over=1.0).convert(schema_request(SLOW), Deadline())


def test_automata_made_there_are_those_made_here() -> None:
    grammar = xgrammar.Grammar.from_ebnf('root ::= "a" r{2,300} [^x]*\nr ::= [a-z]{1,400} "é" | root')
    wanted = Wanted(grammar.serialize_json(), 64_000_000)
    here = optimised_text(wanted)
    assert here is not None and len(here) > 1000
    request = {"task": "optimise", "text": wanted.text, "most_bytes": wanted.most_bytes}
    assert worker.run(Task(request), Deadline(60), "automata").decode() == here
    assert Guard(Budget()).optimise(Deadline(60))(wanted) == here
    assert Guard(Budget()).optimise(Deadline(60))(wanted._replace(most_bytes=100)) is None


# --- Estimates ---------------------------------------------------------------------------------------------


COUNTED = json.dumps(hostile_schemas.counted_properties(400, 150, 300)[1])
STEPS = json.dumps({"properties": {f"p{n}": {"type": "integer", "multipleOf": 1024 - n} for n in range(100)}})


@pytest.mark.parametrize(("schema", "letters"), [(SLOW, "pP{"), (COUNTED, "PO"), (STEPS, "PO")])
def test_estimates_are_not_fooled_by_escapes(schema: str, letters: str) -> None:
    plain = schema_estimate(schema, {})
    assert plain.seconds > 0.5
    # the outer bracket of the schema cannot be escaped
    spelled = "{" + schema[1:].translate({ord(letter): f"\\u{ord(letter):04x}" for letter in letters})
    assert json.loads(spelled) == json.loads(schema) and spelled != schema
    found = schema_estimate(spelled, {})
    assert found.seconds >= 0.9 * plain.seconds and found.is_deep == plain.is_deep


def test_deep_references_are_found_in_escapes() -> None:
    assert schema_estimate(DEEP, {}).is_deep
    assert schema_estimate(DEEP.replace("$ref", "\\u0024ref"), {}).is_deep
    assert not schema_estimate(QUICK, {}).is_deep


def test_escaped_backslashes_are_no_escapes() -> None:
    brackets = '{"const": "' + 2_000 * "\\u005b" + '"}'
    backslashes = brackets.replace("\\", "\\\\")
    assert schema_estimate(backslashes, {}).seconds < 0.1 < schema_estimate(brackets, {}).seconds


DISPATCH = {"type": "token_dispatch", "rules": [[0, {"type": "const_string", "value": "ab"}]]}
EITHER = {"type": "or", "elements": [DISPATCH, {"type": "const_string", "value": "c"}]}


@pytest.mark.parametrize(("inside", "is_escaped"), [(DISPATCH, True), (EITHER, False), (EITHER, True)])
def test_a_token_dispatch_within_a_repeat_ends_no_process_but_its_own(
    inside: dict[str, Any], is_escaped: bool
) -> None:
    """XGrammar 0.2.8 crashes on it."""
    repeat = {"type": "repeat", "min": 1, "max": 2, "content": inside}
    tag = json.dumps({"type": "structural_tag", "format": repeat})
    if is_escaped:
        tag = tag.replace("token_", "token\\u005f").replace("repeat", "r\\u0065peat")
    compiler = GrammarCompiler(Vocabulary.from_bytes([b"a", b"b", b"c", b""], stop_token_ids=[3]))
    with pytest.raises(GrammarError, match="crashes or needs too much memory"):
        compiler.compile_structural_tag(tag)
    assert compiler.compile_structural_tag(json.dumps({"type": "structural_tag", "format": inside})).strategy


def seconds_of(grammar: xgrammar.Grammar, size: int = 2) -> float:
    return grammar_estimate(read_grammar(grammar), size).seconds


@pytest.mark.parametrize(
    ("body", "most_seconds"),
    [
        (" | ".join(f'"{i:x}"' for i in range(1000)), 10),
        ('"' + "a" * 100_000 + '"', 3),
        (f'Substring("{"a" * 400_000}")', 20),
        ("Substring(" + ", ".join(['"abcd abcd"'] * 10_000) + ")", 2),
    ],
)
def test_wide_choices_and_long_texts_are_estimated_by_their_sizes(body: str, most_seconds: float) -> None:
    seconds = seconds_of(xgrammar.Grammar.from_ebnf(f"root ::= {body}"))
    assert most_seconds / 4 < seconds < most_seconds


def left_recursive(before: str) -> xgrammar.Grammar:
    """A grammar of rules that begin with each other, behind a part."""
    rules = (
        f'd{i} ::= {before} d{(7 * i + 1) % 1500} | {before} d{(3 * i + 2) % 1500} | "k{i % 5}"\n'
        for i in range(1500)
    )
    return xgrammar.Grammar.from_ebnf('root ::= d0\ne ::= "" | "z"\nf ::= e e | "y"\n' + "".join(rules))


@pytest.mark.parametrize("before", ["", "e", "f", "[a-z]*"])
def test_left_recursion_is_estimated_by_its_rules(before: str) -> None:
    """XGrammar takes 25 s for 2,000 rules, also with few tokens; rules that begin with text are harmless."""
    assert seconds_of(left_recursive(before)) > 8 > 1 > seconds_of(left_recursive('"x"'))


@pytest.mark.parametrize(("body", "least"), [('"a" | {} "b"?', 60), ('"a"? {}', 16), ('{} | "," {}', 2)])
def test_chains_of_rules_are_estimated_by_their_lengths(body: str, least: float) -> None:
    """For 1,000 rules XGrammar takes 4, 1 and 0.2 s, and four times that for twice as many."""
    rules = "".join(f"r{i} ::= {body.replace('{}', f'r{i + 1}')}\n" for i in range(4000))
    assert seconds_of(xgrammar.Grammar.from_ebnf(f'root ::= r0\n{rules}r4000 ::= "" | "c"')) > least


WEB = """
root ::= a{4} | b{0,4} "a"
a ::= root b c root{0,4} | "a"
b ::= root{0,5} a c | "a"
c ::= a{0,6} root{0,6} b{0,6} | "a"
"""


@pytest.mark.parametrize(
    ("grammar", "expected"),
    [
        ('root ::= "a" root{0,5} "b"?', 2),
        ('root ::= "a" root*', 2),
        ('root ::= "a" r\nr ::= "" | root | root root', 2),
        ('root ::= r | "c"\nr ::= "a" | r r', 2),
        ('root ::= [ab] x\nx ::= "" | root x', 2),
        ('root ::= n r\nr ::= "a" r | ""\nn ::= "" | "a"? n root', 2),
        ('root ::= "a" root{0,5} "b"', 0),
        ('root ::= "[" (root ("," root){0,5})? "]" | "a"*', 0),
        ('root ::= t ("+" t)*\nt ::= [0-9]+ | "(" root ")"', 0),
        ('root ::= root "+" t | t\nt ::= "a" | "[" root "]"', 0),
        ('root ::= "a" r\nr ::= "b" root | ""', 0),
        ("", 0),
        (WEB, 19),
    ],
)
def test_which_recursion_may_be_ambiguous(grammar: str, expected: int) -> None:
    made = xgrammar.Grammar.from_ebnf(grammar) if grammar else xgrammar.Grammar.builtin_json_grammar()
    read = read_grammar(made)
    assert ambiguous_calls(read) == expected <= 2 * count_calls(read)


def test_shared_expressions_are_looked_at_once() -> None:
    """In a serialised grammar, each expression may contain the one before twice: 2 ** 18 paths."""
    serialised = json.loads(xgrammar.Grammar.from_ebnf('root ::= "a" root{0,5} "b"?').serialize_json())
    expressions = [[serial.BYTES, 1, 97], [serial.RULE, 1, 0], [serial.SEQUENCE, 2, 1, 1]]
    expressions += [[serial.CHOICES, 2, number, number] for number in range(2, 20)]
    serialised["rules"] = [[*serialised["rules"][0][:1], 20, *serialised["rules"][0][2:]]]
    serialised["grammar_expr_data"] = [word for one in expressions for word in one]
    serialised["grammar_expr_indptr"] = np.cumsum([0, *map(len, expressions[:-1])]).tolist()
    assert ambiguous_calls(read_grammar(serialised)) == 2
    assert beginnings(read_grammar(serialised)) == (1, 0)


@pytest.mark.parametrize("deterministic", [False, True])
def test_ambiguous_recursion_over_long_tokens_is_stopped(deterministic: bool) -> None:
    """XGrammar takes half a minute; the grammar has 27 bytes."""
    vocabulary = Vocabulary.from_bytes([b"a", b"b", b"a" * 300, b""], stop_token_ids=[3])
    compiler = GrammarCompiler(
        vocabulary, strategy="engine", budget=Budget(seconds=1.0), deterministic=deterministic
    )
    began = time.monotonic()
    with pytest.raises(BudgetExceeded, match="XGrammar's compiler"):
        compiler.compile_grammar('root ::= "a" root{0,5} "b"?')
    assert time.monotonic() - began < 10
    assert compiler.compile_grammar('root ::= "a" root{0,5} "b"').strategy == "engine"


def test_rules_that_call_each_other_in_many_places_are_stopped() -> None:
    """XGrammar takes ten seconds, 400 times as long as for one rule."""
    vocabulary = Vocabulary.from_bytes([b"a", b"b", b"a" * 60, b""], stop_token_ids=[3])
    compiler = GrammarCompiler(vocabulary, strategy="engine", budget=Budget(seconds=1.0))
    began = time.monotonic()
    with pytest.raises(BudgetExceeded, match="XGrammar's compiler"):
        compiler.compile_grammar(WEB)
    assert time.monotonic() - began < 5


def test_counted_repeats_count_together() -> None:
    """Each of the 120 strings expands to 133 rules, which XGrammar compares in pairs: 25 s."""
    one, many = (
        seconds_of(xgrammar.Grammar.from_json_schema(json.dumps(hostile_schemas.long_strings(n, 100_000)[1])))
        for n in (1, 120)
    )
    assert one < 0.02 and many > 10


@pytest.mark.parametrize(
    ("part", "least"),
    [("[a-z]{1,1000}", 0.3), ("[A-Za-z0-9 _-]{1,1000}", 3), ('[^"]{1,1000}', 3), ("[a-z]*", 0)],
)
def test_repeats_of_many_characters(part: str, least: float) -> None:
    """Over 128,256 ids they took 0.9, 7.4 and 0.001 s."""
    assert least <= seconds_of(xgrammar.Grammar.from_ebnf(f"root ::= {part}"), 128_256) < 4 * least + 0.05


@pytest.mark.parametrize("n_arguments", [4, 5])
def test_compilers_of_xgrammar_take_four_or_five_arguments(n_arguments: int) -> None:
    """0.2.9 added one: whether masks are made when they are needed."""

    def compiler(*arguments: Any) -> tuple[Any, ...]:
        if len(arguments) != n_arguments:
            raise TypeError(f"expected {n_arguments} arguments")
        return arguments

    library = object.__new__(Library)
    library.compiler = compiler
    assert library.new_compiler("info", 3) == ("info", 3, False, -1, False)[:n_arguments]
