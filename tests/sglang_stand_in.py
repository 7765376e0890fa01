"""A stand-in for SGLang where it is not installed: modules of its names, with everything that the adapter
relies on.

What: `stand_in` makes the module tree; base classes, the backend for XGrammar and the wrapper for models that
think use compilers, matchers and caches as those of SGLang 0.5.23 do, over a tokenizer that is a list of
texts.
When: in tests of `adapters.sglang`; `tests/test_sglang_managers.py` runs SGLang's own classes.
Limits: everything else of SGLang is missing.
"""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import torch
import xgrammar

from tests.stand_ins import modules_of

SRT = "sglang.srt"
CHOICES = f"{SRT}.arg_groups.choices"
BASE = f"{SRT}.constrained.base_grammar_backend"
XGRAMMAR = f"{SRT}.constrained.xgrammar_backend"
REASONER = f"{SRT}.constrained.reasoner_grammar_backend"
PARSER = f"{SRT}.parser.reasoning_parser"
CONTEXT = f"{SRT}.runtime_context"
SPECULATION = f"{SRT}.speculative.spec_utils"
MANAGER = f"{SRT}.constrained.grammar_manager"
FINISH = f"{SRT}.managers.schedule_batch"
STREAMER = f"{SRT}.managers.scheduler_components.output_streamer"

COMPILE = {
    "json": "compile_json_schema", "regex": "compile_regex", "ebnf": "compile_grammar",
    "structural_tag": "compile_structural_tag",
}  # fmt: skip

THINK_END = ord("!")
"""The token that ends reasoning for the parser "bang"."""


@dataclasses.dataclass
class GrammarStats:
    dispatch_type: str
    is_cache_hit: bool = False
    tree_traversal_time: list[float] = dataclasses.field(default_factory=list)


class GrammarRow(NamedTuple):
    row: int
    grammar: Any


class BaseGrammarObject:
    def __init__(self) -> None:
        self.finished, self.grammar_stats, self.current_token = False, None, None

    def maybe_init_reasoning(self, reasoning):
        pass

    def copy(self):
        return self


class InvalidGrammarObject(BaseGrammarObject):
    def __init__(self, error_message):
        super().__init__()
        self.error_message = error_message


class TokenizerNotSupportedError(Exception):
    pass


class BaseGrammarBackend:
    enable_strict_thinking = False

    def __init__(self):
        self.executor, self.cache = ThreadPoolExecutor(2), {}

    def _init_value_dispatch(self, key, require_reasoning):
        raise NotImplementedError

    def get_cached_or_future_value(self, key, require_reasoning):
        found = self.cache.get(key)
        if not found:
            return self.executor.submit(self._init_value_dispatch, key, require_reasoning), False
        found = found.copy()
        found.maybe_init_reasoning(require_reasoning)
        return found, True

    def set_cache(self, key, value):
        self.cache[key] = value

    def reset(self):
        self.cache.clear()


class XGrammarGrammar(BaseGrammarObject):
    def __init__(self, matcher, vocab_size, ctx, override_stop_tokens, key_string=None, grammar_stats=None):
        super().__init__()
        self.matcher, self.vocab_size, self.ctx = matcher, vocab_size, ctx
        self.override_stop_tokens, self.key_string = override_stop_tokens, key_string
        self.grammar_stats, self.accepted_tokens = grammar_stats, []

    def allocate_vocab_mask(self, vocab_size, batch_size, device):
        return xgrammar.allocate_token_bitmask(batch_size, vocab_size)

    def fill_vocab_mask(self, vocab_mask, idx):
        self.matcher.fill_next_token_bitmask(vocab_mask, idx)

    def accept_token(self, token):
        if not self.is_terminated():
            if not self.matcher.accept_token(token):
                raise ValueError(f"{token}")
            self.accepted_tokens.append(token)

    def rollback(self, k):
        self.matcher.rollback(k)
        self.accepted_tokens = self.accepted_tokens[:-k]

    def is_terminated(self):
        return self.matcher.is_terminated()


class XGrammarGrammarBackend(BaseGrammarBackend):
    def __init__(
        self, tokenizer, vocab_size, model_eos_token_ids=None, any_whitespace=True, max_whitespace_cnt=None
    ):
        super().__init__()
        if tokenizer.texts is None:
            raise TokenizerNotSupportedError("no texts")
        self._tokenizer_info = xgrammar.TokenizerInfo(
            tokenizer.texts, vocab_size=vocab_size, stop_token_ids=model_eos_token_ids
        )
        self.grammar_compiler = xgrammar.GrammarCompiler(tokenizer_info=self._tokenizer_info)
        self._framing_compiler = self._new_framing_compiler(self._tokenizer_info)
        self.vocab_size, self.override_stop_tokens = vocab_size, tokenizer.override
        self.options = {"any_whitespace": any_whitespace, "max_whitespace_cnt": max_whitespace_cnt}

    @staticmethod
    def _new_framing_compiler(tokenizer_info):
        return xgrammar.GrammarCompiler(tokenizer_info=tokenizer_info, cache_enabled=False)

    def _from_context(self, ctx, key_string, grammar_stats):
        stops = self.override_stop_tokens
        matcher = xgrammar.GrammarMatcher(ctx, override_stop_tokens=stops)
        return XGrammarGrammar(matcher, self.vocab_size, ctx, stops, key_string, grammar_stats)

    def _init_value_dispatch(self, key, require_reasoning):
        kind, text = key
        compiler, options = self.grammar_compiler, self.options if kind == "json" else {}
        return self._compiled(kind, text, lambda: getattr(compiler, COMPILE[kind])(text, **options))

    def _compiled(self, kind, text, compile_it):
        try:
            ctx = compile_it()
        except RuntimeError as error:
            return InvalidGrammarObject(str(error))
        return self._from_context(ctx, text, GrammarStats(kind))

    def reset(self):
        super().reset()
        self.grammar_compiler.clear_cache()


class ReasonerGrammarObject(BaseGrammarObject):
    reasoning_in_grammar = False

    def __init__(self, grammar, think_end, after):
        super().__init__()
        self.grammar, self.think_end, self.after, self.before = grammar, think_end, after, []

    def _is_generation(self):
        return self.after >= 0

    def maybe_init_reasoning(self, reasoning):
        self.after = -1 if reasoning else 0

    def allocate_vocab_mask(self, vocab_size, batch_size, device):
        return self.grammar.allocate_vocab_mask(vocab_size, batch_size, device)

    def accept_token(self, token):
        if self._is_generation():
            self.grammar.accept_token(token)
        self.before.append(self.after)
        if self._is_generation() or token == self.think_end:
            self.after += 1

    def fill_vocab_mask(self, vocab_mask, idx):
        if self._is_generation():
            self.grammar.fill_vocab_mask(vocab_mask, idx)

    def rollback(self, k):
        if self.after > 0:
            self.grammar.rollback(min(k, self.after))
        self.after = self.before[-k]
        del self.before[-k:]

    def is_terminated(self):
        return self._is_generation() and self.grammar.is_terminated()

    def copy(self):
        return ReasonerGrammarObject(self.grammar.copy(), self.think_end, self.after)


class ReasonerGrammarBackend(BaseGrammarBackend):
    def __init__(self, grammar_backend, reasoning_parser, tokenizer, enable_strict_thinking=False):
        super().__init__()
        self.grammar_backend = grammar_backend
        self.think_end = reasoning_parser.detector.get_think_end_token_ids(tokenizer)[0]
        self.enable_strict_thinking = enable_strict_thinking

    def _make_grammar_object(self, grammar, reasoning):
        return ReasonerGrammarObject(grammar, self.think_end, -1 if reasoning else 0)

    def _init_value_dispatch(self, key, reasoning):
        found = self.grammar_backend._init_value_dispatch(key, reasoning)
        if isinstance(found, InvalidGrammarObject):
            return found
        return self._make_grammar_object(found, reasoning)


class ReasoningParser:
    def __init__(self, model_type, stream_reasoning, tokenizer):
        ends = [THINK_END] if model_type == "bang" else []
        self.detector = SimpleNamespace(get_think_end_token_ids=lambda _: ends)


class FINISH_ABORT:  # noqa: N801 - as SGLang has it
    def __init__(self, message, status_code, err_type):
        self.message, self.status_code, self.err_type = message, status_code, err_type


class SchedulerOutputStreamer:
    def is_request_level_customized_info_key(self, key):
        return False


class GrammarManager:
    def __init__(self, backend):
        self.grammar_backend, self.grammar_queue = backend, []

    def process_req_with_grammar(self, req):
        key = req.grammar_key
        req.grammar, is_hit = self.grammar_backend.get_cached_or_future_value(key, req.require_reasoning)
        if not is_hit:
            self.grammar_queue.append(req)
        return not is_hit

    def get_ready_grammar_requests(self):
        ready, self.grammar_queue = self.grammar_queue, []
        for req in ready:
            req.grammar = req.grammar.result()
            self.grammar_backend.set_cache(req.grammar_key, req.grammar.copy())
        return ready


class Request:
    """The attributes of a request that are read, and how it ends, one token after the other."""

    def __init__(
        self, rid, kind, text, max_new_tokens=999, stop_token_ids=None, ignore_eos=False, reasoning=False,
        **known,
    ):  # fmt: skip
        self.rid, self.grammar_key, self.require_reasoning, self.grammar = rid, (kind, text), reasoning, None
        self.sampling_params = SimpleNamespace(
            max_new_tokens=max_new_tokens, stop_token_ids=stop_token_ids, ignore_eos=ignore_eos
        )
        self.eos_token_ids, self.tokenizer = set(), None
        self.customized_info = self.finished_reason = self.to_finish = None
        self.output_ids = []
        vars(self).update(known)

    def take(self, token):
        """Read a token, as a step of decoding does."""
        self.output_ids.append(token)
        if self.to_finish:
            self.finished_reason = self.to_finish
        elif token in self.eos_token_ids | (self.sampling_params.stop_token_ids or set()):
            self.finished_reason = "stop"
        elif len(self.output_ids) >= self.sampling_params.max_new_tokens:
            self.finished_reason = "length"
        try:
            self.grammar.accept_token(token)
        except ValueError as error:
            self.to_finish = FINISH_ABORT(f"{error}", 500, "InternalServerError")


def traverse_tree(
    retrieve_next_token, retrieve_next_sibling, draft_tokens, grammar, allocate_token_bitmask, vocab_size=None
):
    """Write the masks of the drafts that a grammar allows, node by node."""

    def visit(node):
        if grammar.is_terminated():
            return
        grammar.fill_vocab_mask(allocate_token_bitmask, node)
        child = int(retrieve_next_token[node])
        while child != -1:
            token = int(draft_tokens[child])
            if token < vocab_size and int(allocate_token_bitmask[node, token // 32]) >> token % 32 & 1:
                grammar.accept_token(token)
                visit(child)
                grammar.rollback(1)
            child = int(retrieve_next_sibling[child])

    visit(0)


def generate_token_bitmask(
    reqs, retrieve_next_token_cpu, retrieve_next_sibling_cpu, draft_tokens_cpu, vocab_size
):
    """Return the masks of the drafts of a batch, tree by tree."""
    rows, grammar, nodes = None, None, draft_tokens_cpu.shape[-1]
    for place, request in enumerate(reqs):
        if request.grammar is not None:
            grammar = request.grammar
            if rows is None:
                rows = grammar.allocate_vocab_mask(
                    vocab_size=vocab_size, batch_size=draft_tokens_cpu.numel(), device="cpu"
                )
            children, siblings = retrieve_next_token_cpu[place], retrieve_next_sibling_cpu[place]
            own = rows[place * nodes : (place + 1) * nodes]
            traverse_tree(children, siblings, draft_tokens_cpu[place], grammar, own, vocab_size=vocab_size)
    return rows, grammar


def named(*objects: Any) -> dict[str, Any]:
    """Return classes and functions by name."""
    return {one.__name__: one for one in objects}


def stand_in(**serving: Any) -> dict[str, ModuleType]:
    """Return modules by name, to be put into `sys.modules`.

    Args:
        **serving: server options that differ from the defaults.
    """
    choices, overridden = ["xgrammar", "none"], []
    registry: dict[str, Any] = {}
    options = {
        "constrained_json_disable_any_whitespace": False, "constrained_json_max_whitespace_cnt": None,
        "enable_strict_thinking": False, "reasoning_parser": None,
    }  # fmt: skip
    context = SimpleNamespace(override=lambda name, **new: overridden.append((name, new)))
    put: dict[str, dict[str, Any]] = {
        "sglang": {"__version__": "0.99"},
        CHOICES: {"GRAMMAR_BACKEND_CHOICES": choices, "add_grammar_backend_choices": choices.extend},
        BASE: {
            "GRAMMAR_BACKEND_REGISTRY": registry, "register_grammar_backend": registry.__setitem__,
            **named(GrammarRow, InvalidGrammarObject),
        },
        XGRAMMAR: named(XGrammarGrammar, XGrammarGrammarBackend, TokenizerNotSupportedError),
        REASONER: named(ReasonerGrammarObject, ReasonerGrammarBackend),
        PARSER: named(ReasoningParser),
        SPECULATION: named(traverse_tree, generate_token_bitmask),
        MANAGER: named(type("GrammarManager", (GrammarManager,), {})),
        FINISH: named(FINISH_ABORT),
        STREAMER: named(type("SchedulerOutputStreamer", (SchedulerOutputStreamer,), {})),
        CONTEXT: {
            "get_context": lambda: context, "get_serving": lambda: SimpleNamespace(**{**options, **serving}),
            "overridden": overridden,
        },
    }  # fmt: skip
    return modules_of(put)


def request_of(backend: Any, kind: str, text: str, reasoning: bool = False) -> Any:
    """Return what a request gets from a backend, as SGLang's manager asks for it."""
    key = kind, text
    found, is_hit = backend.get_cached_or_future_value(key, reasoning)
    if not is_hit:
        found = found.result()
        backend.set_cache(key, found.copy())
    return found


def rows_of(grammars: list[Any], size: int) -> torch.Tensor:
    """Return the mask of a batch, as SGLang's sampling asks for it."""
    mask = torch.full((len(grammars), (size + 31) // 32), -1, dtype=torch.int32)
    entries = [GrammarRow(row, one) for row, one in enumerate(grammars) if not one.is_terminated()]
    grammars[0].fill_vocab_mask_batched(entries, mask)
    return mask
