"""Replacing names in vLLM's modules, after checking that they are as expected.

What: `register` replaces

- ``xgr`` in the module of vLLM's XGrammar backend, so that vLLM's own code uses our compiler and matcher. The
  backend itself is unchanged; a subclass with its own ``compile_grammar`` would not work with both 0.32 and
  0.33;
- `StructuredOutputManager.__init__`, to warm everything up, and `XgrammarBackend` in the manager's module, so
  that the manager gets the warm backend;
- `validate_xgrammar_grammar`, which vLLM's front end calls, if schemas have ``semantics="json-schema"``;
- the manager's ``grammar_bitmask``, if its source is known, to fill all rows in one call
  (`adapters.vllm.steps`);
- ``multiprocessing`` in the manager's module, which counts the cores (`adapters.engines.cores`);
- two more methods of the manager, and one of the backend's grammars, to tell grammars about requests and
  drafts (`adapters.vllm.request`).

When: called by vLLM in every process, perhaps more than once.
Limits: docs/vllm.md lists the releases of vLLM that were tested. For others, it is checked that they use the
names in the same way.
"""

from __future__ import annotations

import functools
import importlib
import logging
from collections.abc import Callable
from types import CodeType, ModuleType
from typing import Any

from adapters.engines.cores import Cores
from adapters.engines.metrics import serve
from adapters.engines.notices import add_named_hook
from adapters.vllm import drafts, request, steps
from adapters.vllm.settings import SETTINGS, check_seconds, note_ranks

logger = logging.getLogger("vllm.equimask")

FRONT_END = "vllm.sampling_params"
MANAGER = "vllm.v1.structured_output"
BACKEND = "vllm.v1.structured_output.backend_xgrammar"


OURS = ("GrammarCompiler", "GrammarMatcher")
"""XGrammar's names that are replaced in the backend."""


class Names(ModuleType):
    """XGrammar's names for vLLM's backend: compiler and matcher are ours, all others XGrammar's. Our classes
    are imported when they are first used, so only in the process that compiles.

    Args:
        theirs: XGrammar, or the module that had replaced it.
    """

    def __init__(self, theirs: Any) -> None:
        super().__init__("xgrammar", self.__doc__)
        self.theirs = theirs

    def __getattr__(self, name: str) -> Any:
        if name in OURS:
            from adapters.vllm import compiler

            return getattr(compiler, name)
        return getattr(self.theirs, name)


class CannotRegister(RuntimeError):
    """This release of vLLM does not use the names that the adapter replaces in the expected way."""


def register() -> None:
    """Serve vLLM's structured outputs, unless that is done already, or ``EQUIMASK_VLLM`` is 0.

    Raises:
        CannotRegister: the adapter does not know this release of vLLM.
        ValueError: an environment variable has a wrong value.
    """
    if not SETTINGS.is_enabled():
        logger.info("%s=0: structured outputs run in plain XGrammar", SETTINGS.enabled)
        return
    # report wrong values here, and not to each request
    SETTINGS.compile_seconds()
    SETTINGS.mask_seconds()
    SETTINGS.drafts()
    SETTINGS.keeps_limits()
    SETTINGS.assert_formats()
    SETTINGS.max_whitespace_cnt()
    manager, backend = _modules()
    _check_names(manager, backend)
    if is_registered():
        return
    if SETTINGS.semantics() == "json-schema":
        _answer(backend)
    serve(SETTINGS)
    backend.xgr = Names(backend.xgr)  # type: ignore[attr-defined]
    warm_backend = WarmBackend(manager.XgrammarBackend)
    manager.XgrammarBackend = warm_backend  # type: ignore[attr-defined]
    kind = manager.StructuredOutputManager
    kind.__init__ = _warming(kind.__init__, warm_backend)
    steps.bind(manager, backend)
    if isinstance(getattr(manager, "multiprocessing", None), ModuleType) and "cpu_count" in _names_read(kind):
        manager.multiprocessing = Cores(manager.multiprocessing)  # type: ignore[attr-defined]
    else:
        logger.info("vLLM sizes its thread pools in a way that equimask does not know; they stay as they are")
    request.bind(kind)  # around the function whose source `steps` checks
    grammar = getattr(backend, "XgrammarGrammar", None)
    if hasattr(grammar, "validate_tokens"):
        grammar.validate_tokens = request.drafting(grammar.validate_tokens)  # type: ignore[union-attr]
    logger.info(
        "equimask serves structured outputs of the backend xgrammar; %s=0 turns it off", SETTINGS.enabled
    )


def _answer(backend: ModuleType) -> None:
    """Make vLLM's front end ask us about JSON schemas.

    Raises:
        CannotRegister: the front end asks in an unknown way.
    """
    name, seconds = "validate_xgrammar_grammar", check_seconds()
    try:
        front_end, errors = importlib.import_module(FRONT_END), importlib.import_module("vllm.exceptions")
    except ModuleNotFoundError as error:
        raise _unknown(f"there is no module {error.name}") from error
    if not hasattr(backend, name) or not hasattr(errors, "VLLMValidationError"):
        raise _unknown(f"{BACKEND} has no {name}, or vllm.exceptions no VLLMValidationError")
    asking = getattr(getattr(front_end, "SamplingParams", None), "_validate_structured_outputs", None)
    if not {name, BACKEND, "_backend", "structured_outputs"} <= _names_of(asking):
        raise _unknown(f"{FRONT_END}.SamplingParams does not ask {BACKEND}.{name}")
    if not {"structured_outputs", "json"} <= _names_of(getattr(backend, name)):
        raise _unknown(f"{BACKEND}.{name} does not read structured_outputs.json")
    from adapters.vllm.schema_check import answered  # slow to import, and needed only here

    formats = SETTINGS.assert_formats()
    bound = answered(getattr(backend, name), errors.VLLMValidationError, seconds, formats)
    setattr(backend, name, bound)


def is_registered() -> bool:
    """Whether vLLM's XGrammar backend uses our names in this process."""
    return isinstance(getattr(_modules()[1], "xgr", None), Names)


def _modules() -> tuple[ModuleType, ModuleType]:
    try:
        return importlib.import_module(MANAGER), importlib.import_module(BACKEND)
    except ModuleNotFoundError as error:
        raise _unknown(f"there is no module {error.name}") from error


def _check_names(manager: ModuleType, backend: ModuleType) -> None:
    """Raise `CannotRegister` unless the names exist and are used as expected."""
    for module, name in (
        (backend, "xgr"),
        (backend, "XgrammarBackend"),
        (manager, "XgrammarBackend"),
        (manager, "StructuredOutputManager"),
    ):
        if not hasattr(module, name):
            raise _unknown(f"{module.__name__} has no {name}")
    for name in request.BOUND:
        if not hasattr(manager.StructuredOutputManager, name):
            raise _unknown(f"{MANAGER}.StructuredOutputManager has no {name}")
    read = _names_read(backend.XgrammarBackend)
    for name in ("xgr", *OURS):
        if name not in read:
            raise _unknown(f"{BACKEND}.XgrammarBackend does not read {name}")
    if "XgrammarBackend" not in _names_read(manager.StructuredOutputManager):
        raise _unknown(f"{MANAGER}.StructuredOutputManager does not read XgrammarBackend")


def _names_read(kind: type) -> set[str]:
    """Return the names that the methods of a class use."""
    found: set[str] = set()
    for value in vars(kind).values():
        found |= _names_of(getattr(value, "__func__", value))  # for static methods
    return found


def _names_of(function: Any) -> set[str]:
    """Return the names that a Python function uses; none for other objects."""
    code = getattr(getattr(function, "__wrapped__", function), "__code__", None)
    return {*code.co_names} if isinstance(code, CodeType) else set()


def _unknown(why: str) -> CannotRegister:
    version = getattr(importlib.import_module("vllm"), "__version__", "of an unknown version")
    return CannotRegister(
        f"equimask cannot serve structured outputs of vLLM {version}: {why}. Set {SETTINGS.enabled}=0 to run "
        "them in plain XGrammar, or install a release that docs/vllm.md names"
    )


class WarmBackend:
    """Makes vLLM's backend: returns the warm backend to the engine that it was made for.

    Args:
        make: vLLM's own class.

    Attributes:
        warm: the warm backend; None if there is none, or if it is in use.
        options: what it was made with. The backend may change its own: for Mistral's tokenizers it counts the
            ids itself.
    """

    def __init__(self, make: Callable[..., Any]) -> None:
        self.make = make
        self.warm: Any = None
        self.options: dict[str, Any] = {}

    def __call__(self, vllm_config: Any, *arguments: Any, **options: Any) -> Any:
        warm, self.warm = self.warm, None
        if warm is not None and warm.vllm_config is vllm_config and not arguments and options == self.options:
            return warm
        return self.make(vllm_config, *arguments, **options)


def _warming(begin: Callable[..., None], backend: WarmBackend) -> Callable[..., None]:
    """Make a manager's ``__init__`` that warms everything up, if requests may use XGrammar's backend."""

    @functools.wraps(begin)
    def begun(self: Any, vllm_config: Any, *arguments: Any, **options: Any) -> None:
        begin(self, vllm_config, *arguments, **options)
        note_ranks(vllm_config)
        if drafts.are_wanted(vllm_config):
            drafts.continue_drafts(self, vllm_config, _unknown)
        add_named_hook(SETTINGS.notices, SETTINGS.hook())
        chosen = vllm_config.structured_outputs_config.backend
        tokenizer = getattr(self, "tokenizer", None)  # there is none if prompts come as ids
        if tokenizer is None or not (chosen == "auto" or chosen.startswith("xgrammar")):
            return
        from adapters.vllm.warmup import warm

        asked = {"tokenizer": tokenizer, "vocab_size": vllm_config.model_config.get_vocab_size()}
        backend.warm, backend.options = warm(lambda: backend.make(vllm_config, **asked)), asked

    return begun
