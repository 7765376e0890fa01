"""The engines that compile schemas, each with the same few methods.

What: `ENGINES` lists them, `missing` says why one is not available here, and `make` makes one over a
vocabulary.
When: in the processes of `bench.json_schema.worker`.
Limits: each engine has its library's defaults, except for what its name says. A matcher of llguidance is
copied for each text, as in MaskBench: after a wrong token it cannot be used again.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from typing import Any

import xgrammar

from bench import workloads
from bench.json_schema.remotes import as_the_suite
from bench.peers import llguidance
from bench.request import Calls, Start, calls_of, hybrid_start, plain_start
from hybrid.testing.segmentation import tokenize_greedy


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
    package = ENGINES[name].package
    if package != "equimask" and importlib.util.find_spec(package) is None:
        return f"it is not installed (pip install {package})"
    return ""


def version(name: str) -> str:
    """Return the version of an engine's package; "" if it has none."""
    try:
        return metadata.version(ENGINES[name].package)
    except metadata.PackageNotFoundError:
        return ""


def make(name: str, vocabulary: Any, remotes: str = "") -> Engine:
    """Make an engine over a vocabulary.

    Args:
        name: one of `ENGINES`.
        vocabulary: the vocabulary of the tokens.
        remotes: as in `bench.json_schema.remotes`; "": schemas are compiled as they are.

    Raises:
        ValueError: the engine is not available here.
    """
    from hybrid import GrammarMatcher

    if reason := missing(name):
        raise ValueError(f"no {name} here: {reason}")
    kind = ENGINES[name]
    if kind.package == "llguidance":
        return _LLGuidance(vocabulary)
    bitmask = xgrammar.allocate_token_bitmask(1, vocabulary.size)
    if kind.package == "xgrammar":
        plain = workloads.plain_compiler(vocabulary, None, cache=True)
        compile_it = partial(plain.compile_json_schema, **kind.options)
        return _Alike(compile_it, xgrammar.GrammarMatcher, bitmask, plain_start)
    ours = workloads.hybrid_compiler(
        vocabulary, "auto", None, cache=True, semantics=kind.options["semantics"]
    )
    compile_it = partial(ours.compile_json_schema, **kind.options)
    if remotes and kind.options["semantics"] == "json-schema":
        compile_it = partial(as_the_suite, compile_it, remotes)
    return _Alike(compile_it, GrammarMatcher, bitmask, hybrid_start)


@dataclass(frozen=True)
class _Alike:
    """Ours and XGrammar, which have the same methods."""

    compile_it: Callable[[Any], Any]
    matcher: Callable[[Any], Any]
    bitmask: Any
    starting: Callable[..., Start]

    def start(self, schema: Any) -> Start:
        """Compile a schema and fill its first mask, or return the refusal. All engines get it as text."""
        return self.starting(partial(self.compile_it, json.dumps(schema)), self.bitmask, collect=False)

    def compile(self, schema: Any) -> Any:
        """Compile a schema without a mask; a refusal is raised as an error."""
        return self.compile_it(json.dumps(schema))

    def reads(self, compiled: Any, text: bytes) -> Reading:
        """Read a whole text in the fastest way. Return whether it is accepted."""
        matcher = self.matcher(compiled)
        if matcher.accept_string(text):
            taken = bool(matcher.is_completed())
            return Reading(taken, None if taken else len(text))
        matcher = self.matcher(compiled)
        for place in range(len(text)):
            if not matcher.accept_string(text[place : place + 1]):
                return Reading(False, place)
        return Reading(False, len(text))  # the whole text is refused, but not byte by byte

    def begin(self, compiled: Any) -> Calls:
        """Make a matcher at the beginning of a text."""
        return calls_of(self.matcher(compiled), self.bitmask)


class _LLGuidance:
    """llguidance, which reads tokens; the methods are those of `_Alike`."""

    def __init__(self, vocabulary: Any) -> None:
        self._vocabulary = vocabulary
        self._peer = llguidance.Peer(vocabulary)

    def start(self, schema: Any) -> Start:
        return self._peer.schema(schema, collect=False)

    def compile(self, schema: Any) -> Any:
        return self._peer.compile("grammar_from_json_schema", json.dumps(schema))

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


Engine = _Alike | _LLGuidance
