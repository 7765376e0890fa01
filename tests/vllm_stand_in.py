"""What stands in for vLLM where it is not installed: modules of its names, with what the adapter relies on.

What: `stand_in` makes the module tree; manager and backend do what vLLM 0.33's do with compilers, matchers
and stop tokens, over a tokenizer that is a list of texts.
When: by tests of `adapters.vllm`; vLLM's own managers are run by `tests/test_vllm_managers.py`.
Limits: everything else of vLLM is missing.
"""

from __future__ import annotations

from functools import partial
from types import ModuleType, SimpleNamespace

import xgrammar

from tests.stand_ins import modules_of, standing_in

MODULES = ("vllm", "vllm.v1", "vllm.v1.structured_output", "vllm.v1.structured_output.backend_xgrammar")
FRONT_MODULES = ("vllm.sampling_params", "vllm.exceptions")

BACKEND = """
class XgrammarBackend:
    def __init__(self, vllm_config, tokenizer, vocab_size):
        self.vllm_config, self.tokenizer, self.vocab_size = vllm_config, tokenizer, vocab_size
        whole = xgr.TokenizerInfo(tokenizer.texts, stop_token_ids=tokenizer.stops, vocab_size=vocab_size)
        known = [b"" if i in tokenizer.special else text for i, text in enumerate(tokenizer.texts)]
        filtered = xgr.TokenizerInfo(known, stop_token_ids=tokenizer.stops, vocab_size=vocab_size)
        self.compiler = self._create_compiler(filtered)
        self.full_vocab_compiler = self._create_compiler(whole)

    @staticmethod
    def _create_compiler(info):
        return xgr.GrammarCompiler(info, max_threads=8, cache_enabled=True, cache_limit_bytes=2**20)

    def compile_grammar(self, kind, text, stop_token_ids=None):
        if kind == "json":
            compiled = self.compiler.compile_json_schema(text, any_whitespace=True, separators=None)
        elif kind == "tag":
            compiled = self.full_vocab_compiler.compile_structural_tag(text)
        else:
            compiled = self.compiler.compile_grammar(text)
        stops = list(stop_token_ids) if stop_token_ids else None
        return xgr.GrammarMatcher(compiled, override_stop_tokens=stops, max_rollback_tokens=2)

    def allocate_token_bitmask(self, max_num_seqs):
        return xgr.allocate_token_bitmask(max_num_seqs, self.vocab_size)


def validate_xgrammar_grammar(sampling_params):
    asked = sampling_params.structured_outputs
    if asked.json is not None and "multipleOf" in str(asked.json):
        raise ValueError("features not supported by xgrammar")
    asked.was_asked = True
"""

MANAGER = """
import multiprocessing
from types import SimpleNamespace

import torch


class StructuredOutputManager:
    reasoner_cls = None

    def __init__(self, vllm_config):
        self.workers = (multiprocessing.cpu_count() + 1) // 2
        self.backend, self.vllm_config = None, vllm_config
        if not vllm_config.model_config.skip_tokenizer_init:
            self.tokenizer = vllm_config.model_config.tokenizer

    def grammar_init(self, kind, text, stop_token_ids=None, **request):
        known = {"request_id": "request", "max_tokens": 999, "num_prompt_tokens": 1, "num_output_tokens": 0}
        asked = SimpleNamespace(kind=kind, text=text, stops=stop_token_ids, **{**known, **request})
        if self.backend is None:
            size = self.vllm_config.model_config.get_vocab_size()
            self.backend = XgrammarBackend(self.vllm_config, tokenizer=self.tokenizer, vocab_size=size)
        asked.structured_output_request = SimpleNamespace(grammar=self._create_grammar(asked))
        return asked if request else asked.structured_output_request.grammar.matcher

    def _create_grammar(self, request):
        made = self.backend.compile_grammar(request.kind, request.text, stop_token_ids=request.stops)
        return SimpleNamespace(matcher=made)

    def grammar_bitmask(self, requests, names, drafts):
        rows = self.backend.allocate_token_bitmask(sum(1 + len(drafts.get(name, ())) for name in names))
        row = 0
        for name in names:
            matcher = requests[name].structured_output_request.grammar.matcher
            read = 0
            for token in [*drafts.get(name, ()), None]:
                if not matcher.is_terminated():
                    matcher.fill_next_token_bitmask(rows, row)
                row += 1
                read += token is not None and matcher.accept_token(token)
            matcher.rollback(read)
        return rows.numpy()
"""

FRONT_END = """
class SamplingParams:
    def __init__(self, structured_outputs):
        self.structured_outputs = structured_outputs

    def _validate_structured_outputs(self, backend):
        from vllm.v1.structured_output.backend_xgrammar import validate_xgrammar_grammar

        self.structured_outputs._backend = backend
        validate_xgrammar_grammar(self)
"""


def stand_in(
    backend: str = BACKEND, manager: str = MANAGER, front_end: str = FRONT_END
) -> dict[str, ModuleType]:
    """Modules by name, to be put among `sys.modules`.

    Args:
        backend: source of the module of XGrammar's backend.
        manager: source of the module of the manager.
        front_end: source of the module that checks requests.
    """
    made = modules_of({name: {} for name in (*MODULES, *FRONT_MODULES)} | {"vllm": {"__version__": "0.99"}})
    last, before = made[MODULES[3]], made[MODULES[2]]
    vars(last)["xgr"] = xgrammar
    exec(backend, vars(last))
    if hasattr(last, "XgrammarBackend"):
        vars(before)["XgrammarBackend"] = last.XgrammarBackend
    exec(manager, vars(before))
    exec(front_end, vars(made[FRONT_MODULES[0]]))
    vars(made[FRONT_MODULES[1]])["VLLMValidationError"] = type("VLLMValidationError", (ValueError,), {})
    return made


installed = partial(standing_in, "vllm", stand_in)
"""Yields a function that installs the stand-in and imports the adapter, see `standing_in`."""


def config(texts: list[bytes], *, stops: list[int], special: set[int], size: int, backend: str = "auto"):
    """What the adapter reads of vLLM's configuration, and a tokenizer."""
    tokenizer = SimpleNamespace(texts=texts, stops=stops, special=special)
    model = SimpleNamespace(skip_tokenizer_init=False, tokenizer=tokenizer, get_vocab_size=lambda: size)
    return SimpleNamespace(structured_outputs_config=SimpleNamespace(backend=backend), model_config=model)
