"""Call XGrammar and Lark without putting the calling program at risk.

What: `Guard` calls XGrammar's parsers, converters and compiler, and lets Lark build its parsers. These cannot
be interrupted, take minutes for some inputs, and crash the process for others. Calls that are estimated to be
quick and not deeply nested are made in this process. All others, and all calls of Lark, are made in a process
that is killed when the time is over (`hybrid.guard.worker`).
When: by `hybrid.compile.compilation`, for every grammar.
Limits: the estimates (`hybrid.guard.estimate`) come from inputs that were found to be slow in XGrammar 0.2.8.
If no process can be started, inputs that are estimated to exceed the budget, or to be too deep, are refused.

The other process returns a converted grammar as XGrammar's serialised text. It does not return a compiled
grammar, because serialising and reading it takes up to 10 times as long as compiling it. It only shows that
the compilation ends; then the grammar is compiled again in this process.
"""

from __future__ import annotations

import json
import threading
import weakref
from array import array
from collections.abc import Sequence
from typing import Any

import xgrammar

from equivalence import BudgetExceeded, GrammarError, forks
from equivalence.deadline import Deadline
from equivalence.network.grammar_reader import read_grammar
from equivalence.network.optimised import N_TOKENS, Optimise, Wanted, optimised_text
from hybrid.guard import worker
from hybrid.guard.estimate import (
    DEEP_GRAMMAR_BYTES,
    Estimate,
    ambiguity_seconds,
    grammar_estimate,
    pattern_estimate,
)
from hybrid.guard.lark_serialisation import Construction, deserialised
from hybrid.guard.recursion import ambiguous_calls, count_calls
from hybrid.values.budget import Budget
from hybrid.xgrammar.messages import refusals, shortened

__all__ = ["Guard"]

QUICK_SECONDS = 0.5
"""Conversions with estimates up to this are made in this process, without the interpreter's lock. MaskBench
has 363 schemas with estimates of 0.1 to 0.5 s; none took longer than 0.14 s, or half of its estimate. The
other process costs about 3 ms, plus more than the time of the conversion for writing and reading its answer.
"""

UNBOUNDED_SECONDS = 10.0
"""The same if there is no time limit: longer calls go to the other process, which bounds their memory."""

LIKELY_FACTOR = 3.0
"""A compilation may take this many times the estimate. For schemas it took up to 1.6 times with 128,000 ids,
3.6 times with 2,000."""

CONVERT_BYTES, COMPILE_BYTES = 2**30, 2 * 2**30
"""The memory that the other process may use in addition to its own 40 MiB."""

MOST_LEXER_STATES = 50_000
"""Most states of a Lark grammar's lexer, even if `Budget.states` is larger."""

QUICK_TEXT, QUICK_BYTES = 20_000, 500_000
"""Size of the largest serialised grammar whose automata are made in this process, and of the largest
result."""

READ_FACTOR = 16
"""Bytes of memory for each byte of a serialised grammar that is read in this process, because of Python's
integers."""

READ_SECONDS = 45e-9
"""Seconds for each byte of a serialised grammar that XGrammar reads in this process (15 ns), and writes again
so that we can read it (31 ns). Neither can be interrupted. Measured for 1 to 13 MB."""

CANNOT_COMPILE = "cannot compile the grammar"

_users: weakref.WeakSet[Guard] = weakref.WeakSet()
_users_lock = forks.registered(threading.Lock(), forks.Order.BRIEF)


class Guard:
    """The calls of XGrammar for one compiler.

    Args:
        budget: bounds of one compilation.
        refuse_over: refuse calls that are estimated to take more seconds than this; for compilers that do not
            use a clock.
    """

    def __init__(self, budget: Budget, *, refuse_over: float | None = None) -> None:
        self.budget = budget
        self.refuse_over = refuse_over

    def start(self) -> None:
        """Start the other process in the background, because this guard will be used soon."""
        with _users_lock:
            _users.add(self)
        worker.start(lambda: bool(_users))

    def close(self) -> None:
        """Release the other process. It ends when no guard needs it; a later task starts it again."""
        with _users_lock:
            _users.discard(self)
            unused = not _users
        if unused:
            worker.close()

    def convert(self, conversion: Any, deadline: Deadline) -> xgrammar.Grammar:
        """Convert a text in this process or in another one.

        Args:
            conversion: a `hybrid.compile.request.Converted`.
            deadline: the deadline of the call.

        Raises:
            GrammarError: XGrammar refuses the text, or would crash.
            BudgetExceeded: the conversion would take too long, or too much memory.
        """
        estimate = conversion.estimate()
        phase = f"XGrammar's parser of the {conversion.title}"
        deadline.check(phase)
        left = deadline.left
        quick = QUICK_SECONDS if left is not None else UNBOUNDED_SECONDS
        if estimate is None or (not estimate.is_deep and estimate.seconds <= quick):
            return conversion.convert_here()
        self._refuse(estimate, phase)
        function, arguments = conversion.remote_call()
        request = {"task": "convert", "function": function, "arguments": arguments}
        task = worker.Task(request, (), CONVERT_BYTES, self.budget.bytes // READ_FACTOR)
        answer = self._in_worker(task, estimate, deadline, phase, conversion.title)
        if answer is None:
            return conversion.convert_here()
        deadline.check(phase, READ_SECONDS * len(answer))
        return xgrammar.Grammar.deserialize_json(answer.decode("utf-8", "surrogatepass"))

    def lark(self, text: str, start: str, deadline: Deadline) -> Construction:
        """Make the parser and the lexer of a Lark grammar (`hybrid.guard.lark_construction`).

        How long this takes cannot be predicted from the grammar: a parser may have exponentially many states,
        and patterns may backtrack on the texts of keywords.

        Raises:
            GrammarError: Lark refuses the grammar.
            UnsupportedGrammar: the meaning of a terminal or an option cannot be kept.
            BudgetExceeded: it takes too long, too many states or too much memory.
        """
        phase = "Lark's parser and lexer of the grammar"
        deadline.check(phase)
        most = min(self.budget.states, MOST_LEXER_STATES)
        request = {"task": "lark", "text": text, "start": start, "max_states": most}
        task = worker.Task(request, (), CONVERT_BYTES, self.budget.bytes)
        try:
            found = deserialised(self._run(task, deadline, phase))
        except worker.Unavailable:
            from hybrid.guard.lark_construction import construct  # imported late: Lark is slow to import

            found = construct(text, start, most, deadline)
        except (worker.OutOfMemory, worker.TooLarge) as error:
            raise BudgetExceeded(
                f"{phase} need too much memory ({error}, in another process); let alternatives that "
                "begin alike share rules, or make the grammar smaller"
            ) from error
        except (worker.Refused, worker.Died) as error:
            raise GrammarError(
                f"{phase} cannot be built ({shortened(error)}; it was tried in another process)"
            ) from error
        deadline.check(phase)
        return found

    def compile(
        self, compiler: xgrammar.GrammarCompiler, vocabulary: tuple[Sequence[bytes], Sequence[int], int],
        threads: int, grammar: xgrammar.Grammar, deadline: Deadline,
    ) -> xgrammar.CompiledGrammar:  # fmt: skip
        """Call `xgrammar.GrammarCompiler.compile_grammar`.

        Args:
            compiler: XGrammar's compiler.
            vocabulary: its vocabulary: the tokens by their ids, the ids of stop tokens, and the bytes of the
                longest token.
            threads: its number of threads.
            grammar: the grammar.
            deadline: the deadline of the call.

        Raises:
            GrammarError: XGrammar refuses the grammar, or would crash.
            BudgetExceeded: it would take too long.
        """
        phase = "XGrammar's compiler of the grammar"
        deadline.check(phase)
        tokens, stop_token_ids, longest = vocabulary
        with refusals(CANNOT_COMPILE):
            left = deadline.left
            limit = left if self.refuse_over is None else self.refuse_over
            estimate = self._compiling(grammar, len(tokens), longest, limit)
            self._refuse(estimate, phase)
            likely = LIKELY_FACTOR * estimate.seconds
            if estimate.is_deep or (left is not None and likely > left):
                payloads = (
                    grammar.serialize_json().encode("utf-8", "surrogatepass"),
                    array("I", map(len, tokens)).tobytes(),
                    b"".join(tokens),
                )
                request = {"task": "compile", "stop_token_ids": list(stop_token_ids), "threads": threads}
                task = worker.Task(request, payloads, COMPILE_BYTES, share=0.5)
                self._in_worker(task, estimate, deadline, phase, "grammar")
                deadline.check(phase)
            return compiler.compile_grammar(grammar)

    def optimise(self, deadline: Deadline) -> Optimise:
        """Return a function that makes the texts of `equivalence.network.optimised` until the deadline.

        It raises the errors of `compile`.
        """
        phase = "XGrammar's automata of the grammar"

        def optimise(wanted: Wanted) -> str | None:
            deadline.check(phase)
            estimate = self._optimising(wanted)
            self._refuse(estimate, phase)
            with refusals(CANNOT_COMPILE):
                if not estimate.is_deep and estimate.seconds <= QUICK_SECONDS:
                    most = min(QUICK_BYTES, wanted.most_bytes)
                    found = optimised_text(wanted._replace(most_bytes=most))
                    if found is not None or most == wanted.most_bytes:
                        return found
                request = {"task": "optimise", "text": wanted.text, "most_bytes": wanted.most_bytes}
                answer = self._in_worker(
                    worker.Task(request, (), COMPILE_BYTES), estimate, deadline, phase, "grammar"
                )
                if answer is None:
                    return optimised_text(wanted)
            deadline.check(phase)
            return answer.decode("utf-8", "surrogatepass") or None

        return optimise

    def _optimising(self, wanted: Wanted) -> Estimate:
        if wanted.pattern:
            return pattern_estimate(wanted.pattern)
        if len(wanted.text) > QUICK_TEXT:
            return Estimate(UNBOUNDED_SECONDS, len(wanted.text) > DEEP_GRAMMAR_BYTES)
        return grammar_estimate(read_grammar(json.loads(wanted.text)), N_TOKENS)

    def _compiling(
        self, grammar: xgrammar.Grammar, size: int, longest: int, limit: float | None
    ) -> Estimate:  # fmt: skip
        """Estimate a compilation. Ambiguity is only looked for if it may exceed the limit in seconds.

        How many calls may be ambiguous decides only whether another process tries it first: many grammars
        with many such calls are quick.
        """
        try:
            read = read_grammar(grammar)
        except GrammarError:  # its serialised form cannot be read
            return Estimate(UNBOUNDED_SECONDS, False)
        seconds, is_deep = grammar_estimate(read, size)
        if is_deep or limit is None:
            return Estimate(seconds, is_deep)
        most = count_calls(read) if self.refuse_over is None else 1
        if LIKELY_FACTOR * (seconds + ambiguity_seconds(longest, 2 * most)) > limit:
            calls = ambiguous_calls(read)
            seconds += ambiguity_seconds(longest, min(calls, 2 * most))
        return Estimate(seconds, is_deep)

    def _run(self, task: worker.Task, deadline: Deadline, phase: str) -> bytes:
        """Call `worker.run`, and keep the process until this guard is closed."""
        with _users_lock:
            _users.add(self)
        return worker.run(task, deadline, phase)

    def _refuse(self, estimate: Estimate, phase: str) -> None:
        """Refuse a call because of its estimate, if no clock is used."""
        if self.refuse_over is not None and estimate.seconds > self.refuse_over:
            raise BudgetExceeded(
                f"{phase} would take about {estimate.seconds:.1f} s, but the limit is "
                f"{self.refuse_over} s; raise Budget.seconds, or simplify the grammar"
            )

    def _in_worker(
        self, task: worker.Task, estimate: Estimate, deadline: Deadline, phase: str, title: str
    ) -> bytes | None:
        """Return the answer of another process; None if there is none, and the estimate permits a call in
        this process."""
        try:
            return self._run(task, deadline, phase)
        except worker.Refused as error:
            raise GrammarError(f"XGrammar refuses the {title}: {shortened(error)}") from error
        except worker.TooLarge as error:
            raise BudgetExceeded(
                f"XGrammar converts the {title} to a grammar of {error.size / 2**20:.1f} MiB, but the "
                f"limit is {task.most_bytes / 2**20:.1f} MiB (a {READ_FACTOR}th of Budget.bytes); "
                f"raise Budget.bytes, or simplify the {title}"
            ) from error
        except (worker.OutOfMemory, worker.Died) as error:
            raise GrammarError(
                f"{phase} crashes or needs too much memory ({error}; it was tried in another process); "
                f"nest the {title} less deeply, or make it smaller"
            ) from error
        except worker.Unavailable as error:
            left = deadline.left
            if estimate.is_deep:
                raise GrammarError(
                    f"{phase} might crash, because the {title} is nested too deeply or too large, and "
                    f"this cannot be tried in another process ({error}); nest the {title} less deeply, "
                    "or make it smaller"
                ) from error
            if left is not None and estimate.seconds > left:
                raise BudgetExceeded(
                    f"{phase} would take about {estimate.seconds:.1f} s, but only {left:.1f} s are "
                    f"left, and it cannot run in another process, where it could be stopped ({error}); "
                    f"raise Budget.seconds, or simplify the {title}"
                ) from error
            return None
