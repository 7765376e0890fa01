"""The engines that compile schemas, each with the same few methods.

What: `ENGINES` lists them, `missing` says why one is not available here, and `make` makes one over a
vocabulary.
When: in the processes of `bench.json_schema.worker`.
Limits: each engine has its library's defaults, except for what its name says. A matcher of llguidance is
copied for each text, as in MaskBench: after a wrong token it cannot be used again.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from typing import Any, Protocol

import xgrammar

from bench import workloads
from bench.json_schema.remotes import as_the_suite
from bench.peers import grid, llguidance
from bench.request import Calls, Start, hybrid_start, plain_start, start
from hybrid.testing.segmentation import tokenize_greedy


class Engine(Protocol):
    """An engine that compiles schemas."""

    def start(self, schema: Any) -> Start:
        """Compile a schema and fill its first mask, or return the refusal."""

    def compile(self, schema: Any) -> Any:
        """Compile a schema without a mask; a refusal is raised as an error."""

    def reads(self, compiled: Any, text: bytes) -> Reading:
        """Read a whole text in the fastest way. Return whether it is accepted."""

    def begin(self, compiled: Any) -> Calls:
        """Make a matcher at the beginning of a text."""

    def left_out(self, compiled: Any) -> list[str]:
        """Return what the engine itself says that it leaves out of the schema."""


@dataclass(frozen=True)
class Reading:
    """Whether a text is accepted to its end and may end there; if not, after how many bytes it is refused.

    If that is the length of the text, the text is only the beginning of a valid one.
    """

    taken: bool
    stopped: int | None = None


@dataclass(frozen=True)
class Kind:
    """An engine that can be chosen by its name.

    Attributes:
        package: the package whose version identifies it.
        options: options of its compiler's method.
        title: its name in tables.
    """

    package: str
    options: Mapping[str, Any]
    title: str


ENGINES: Mapping[str, Kind] = {
    "equimask:json-schema": Kind("equimask", {"semantics": "json-schema"}, "equimask, JSON Schema"),
    "equimask:json-schema:no-strict": Kind(
        "equimask", {"semantics": "json-schema", "strict_mode": False}, "equimask, JSON Schema, not strict"
    ),
    "equimask:xgrammar": Kind("equimask", {"semantics": "xgrammar"}, "equimask, as XGrammar"),
    "equimask:xgrammar:no-strict": Kind(
        "equimask", {"semantics": "xgrammar", "strict_mode": False}, "equimask, as XGrammar, not strict"
    ),
    "xgrammar": Kind("xgrammar", {}, "XGrammar"),
    "xgrammar:no-strict": Kind("xgrammar", {"strict_mode": False}, "XGrammar, not strict"),
    "llguidance": Kind("llguidance", {}, "llguidance"),
    "grid": Kind("grid-guardrail", {}, "GRID"),
}

DEFAULT = tuple(name for name in ENGINES if name != "equimask:xgrammar:no-strict")
"""All engines except the one that gives the same answers as another."""


REFUSED_TOKEN = ("doesn't satisfy the grammar", "parser stopped")
"""Parts of llguidance's messages if it refuses a token; with any other message, it has failed."""


def missing(name: str) -> str:
    """Return why an engine is not available here; "" if it is.

    Raises:
        ValueError: there is no engine of this name.
    """
    if name not in ENGINES:
        raise ValueError(f"there is no engine {name!r}; allowed are {', '.join(ENGINES)}")
    kind = ENGINES[name]
    if kind.package == "equimask":
        if kind.options["semantics"] != "xgrammar" and not _has_semantics():
            return "compile_json_schema has no argument semantics"
        return ""
    if kind.package == "grid-guardrail":
        return (
            "" if grid.is_installed() else "it is not installed (pip install 'grid-guardrail[kernel]' pyyaml)"
        )
    if importlib.util.find_spec(kind.package) is None:
        return f"it is not installed (pip install {kind.package})"
    return ""


def version(name: str) -> str:
    """Return the version of an engine's package; "" if it has none."""
    try:
        return metadata.version(ENGINES[name].package)
    except metadata.PackageNotFoundError:
        return ""


def make(
    name: str, vocabulary: Any, threads: int | None = None, remotes: str = "", annotations: bool = False
) -> Engine:
    """Make an engine over a vocabulary.

    Args:
        name: one of `ENGINES`.
        vocabulary: the vocabulary of the tokens.
        threads: number of threads that compile, if the engine has that option; None is its library's default.
        remotes, annotations: as in `bench.json_schema.remotes`; "": schemas are compiled as they are.

    Raises:
        ValueError: the engine is not available here.
    """
    if reason := missing(name):
        raise ValueError(f"no {name} here: {reason}")
    kind = ENGINES[name]
    if kind.package == "equimask":
        return _ours(vocabulary, kind.options, threads, remotes, annotations)
    if kind.package == "xgrammar":
        compiler = workloads.plain_compiler(vocabulary, threads, cache=True)
        bitmask = xgrammar.allocate_token_bitmask(1, vocabulary.size)
        compile_it = partial(compiler.compile_json_schema, **kind.options)
        return _Alike(compile_it, xgrammar.GrammarMatcher, bitmask, plain_start)
    return _LLGuidance(vocabulary) if kind.package == "llguidance" else _Grid(vocabulary)


def _has_semantics() -> bool:
    from hybrid import GrammarCompiler

    return "semantics" in inspect.signature(GrammarCompiler.compile_json_schema).parameters


def _ours(
    vocabulary: Any, options: Mapping[str, Any], threads: int | None, remotes: str, annotations: bool
) -> Engine:
    from hybrid import GrammarMatcher

    compiler = workloads.hybrid_compiler(vocabulary, "auto", threads, cache=True)
    given = dict(options) if _has_semantics() else {k: v for k, v in options.items() if k != "semantics"}
    bitmask = xgrammar.allocate_token_bitmask(1, vocabulary.size)
    compile_it: Callable[[Any], Any] = partial(compiler.compile_json_schema, **given)
    if remotes and given.get("semantics") == "json-schema":
        compile_it = as_the_suite(compiler.compile_json_schema, given, remotes, annotations)
    return _Alike(compile_it, GrammarMatcher, bitmask, hybrid_start)


class _Alike:
    """Ours and XGrammar, which have the same methods."""

    def __init__(
        self,
        compile_it: Callable[[Any], Any],
        matcher: Callable[[Any], Any],
        bitmask: Any,
        start: Callable[..., Start],
    ) -> None:
        self._compile, self._matcher, self._bitmask, self._start = compile_it, matcher, bitmask, start

    def start(self, schema: Any) -> Start:
        return self._start(partial(self.compile, schema), self._bitmask, collect=False)

    def compile(self, schema: Any) -> Any:
        # The compilers accept the schemas true and false only as text.
        return self._compile(schema if isinstance(schema, dict) else json.dumps(schema))

    def reads(self, compiled: Any, text: bytes) -> Reading:
        matcher = self._matcher(compiled)
        if matcher.accept_string(text):
            taken = bool(matcher.is_completed())
            return Reading(taken, None if taken else len(text))
        matcher = self._matcher(compiled)
        for place in range(len(text)):
            if not matcher.accept_string(text[place : place + 1]):
                return Reading(False, place)
        return Reading(False, len(text))  # the whole text is refused, but not byte by byte

    def begin(self, compiled: Any) -> Calls:
        matcher = self._matcher(compiled)
        fill = partial(matcher.fill_next_token_bitmask, self._bitmask)
        return Calls(fill, matcher.accept_token, matcher.is_completed, self._bitmask)

    def left_out(self, compiled: Any) -> list[str]:
        return [str(one) for one in getattr(compiled, "relaxed", ())]


class _LLGuidance:
    """llguidance, which reads tokens."""

    def __init__(self, vocabulary: Any) -> None:
        self._vocabulary = vocabulary
        self._peer = llguidance.Peer(vocabulary)

    def start(self, schema: Any) -> Start:
        return self._peer.schema(schema, collect=False)

    def compile(self, schema: Any) -> Any:
        from llguidance import LLMatcher

        grammar = LLMatcher.grammar_from_json_schema(json.dumps(schema))
        matcher = LLMatcher(self._peer.tokenizer, grammar, log_level=0)
        if problem := matcher.get_error():
            raise ValueError(problem)
        return matcher

    def reads(self, compiled: Any, text: bytes) -> Reading:
        ids: Sequence[int] = tokenize_greedy(self._vocabulary, text)
        matcher = compiled.deep_copy()
        count = matcher.try_consume_tokens(list(ids))
        if count == len(ids) and matcher.is_accepting():
            return Reading(True)
        if count < len(ids):
            matcher.consume_token(ids[count])  # its error then has the reason
            problem = matcher.get_error()
            if not any(words in problem for words in REFUSED_TOKEN):
                raise ValueError(problem)
        return Reading(False, sum(len(self._vocabulary.tokens[one]) for one in ids[:count]))

    def begin(self, compiled: Any) -> Calls:
        return self._peer.calls(compiled.deep_copy())

    def left_out(self, compiled: Any) -> list[str]:
        return []  # it refuses schemas that it cannot enforce


class _Grid:
    """GRID, which also reads tokens."""

    def __init__(self, vocabulary: Any) -> None:
        self._vocabulary = vocabulary
        self._peer = grid.Peer(vocabulary, xgrammar.allocate_token_bitmask(1, vocabulary.size))

    def start(self, schema: Any) -> Start:
        def calls(compiled: Any) -> Calls:
            return self._peer.begin(compiled[0])

        return start(partial(self._peer.compile, schema), calls, (Exception,), collect=False)

    def compile(self, schema: Any) -> Any:
        return self._peer.compile(schema)

    def reads(self, compiled: Any, text: bytes) -> Reading:
        calls, place = self.begin(compiled), 0
        for one in tokenize_greedy(self._vocabulary, text):
            if not calls.accept(one):
                return Reading(False, place)
            place += len(self._vocabulary.tokens[one])
        return Reading(True) if calls.is_complete() else Reading(False, place)

    def begin(self, compiled: Any) -> Calls:
        return self._peer.begin(compiled[0])

    def left_out(self, compiled: Any) -> list[str]:
        left: list[str] = compiled[1]
        return left
