"""Where vLLM's names are bound anew, and what is looked at before.

What: `register` binds names: ``xgr`` in the module of vLLM's XGrammar backend, so that all of vLLM's
own code runs over our compiler and matcher; `StructuredOutputManager.__init__`, which then makes everything
warm; and `XgrammarBackend` where that manager makes one, so that it gets the warm one. The backend stays what
it is: a subclass with a ``compile_grammar`` of its own would not have served 0.32 and 0.33 alike. Where JSON
schemas have their own meaning, a fourth: `validate_xgrammar_grammar`, which vLLM's front end asks. Where its
source is known, the manager's ``grammar_bitmask``, which then fills all rows in one call
(`adapters.vllm.steps`); and ``multiprocessing`` where that manager asks how many cores there are
(`adapters.engines.cores`). Two more methods of that manager tell requests what they should know
(`adapters.vllm.request`).
When: by vLLM, in every process, maybe more than once.
Limits: releases of vLLM that were tested are in docs/vllm.md; of others it is looked at whether they use the
names as these did.
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
from adapters.vllm import drafts, ranks, request, steps
from adapters.vllm.names import OURS, Names
from adapters.vllm.settings import SETTINGS

logger = logging.getLogger("vllm.equimask")

FRONT_END = "vllm.sampling_params"
MANAGER = "vllm.v1.structured_output"
BACKEND = "vllm.v1.structured_output.backend_xgrammar"


class CannotRebind(RuntimeError):
    """This release of vLLM does not use the names that the adapter binds, as others do."""


def register() -> None:
    """Serve vLLM's structured outputs; nothing where that is done already, or ``EQUIMASK_VLLM`` is 0.

    Raises:
        CannotRebind: this release of vLLM is another one than the adapter knows.
        ValueError: an environment variable that cannot be read.
    """
    if not SETTINGS.is_enabled():
        logger.info("%s is 0: structured outputs run in plain XGrammar", SETTINGS.enabled)
        return
    # what cannot be read is said here, and not to each request
    SETTINGS.compile_seconds()
    SETTINGS.drafts()
    SETTINGS.closes()
    manager, backend = _modules()
    _look_at(manager, backend)
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
        logger.info("vLLM sizes the pools of its structured outputs in a way that is not known")
    request.bind(kind)  # around the call of a step, whose source `steps` looks at
    logger.info(
        "equimask serves structured outputs of the backend xgrammar; %s=0 turns it off", SETTINGS.enabled
    )


def _answer(backend: ModuleType) -> None:
    """Have vLLM's front end ask us about JSON schemas.

    Raises:
        CannotRebind: it asks in another way than the releases that are known.
    """
    name, seconds = "validate_xgrammar_grammar", SETTINGS.check_seconds()
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
    from adapters.vllm.checking import SchemaCheck, answered  # heavy, and of no use elsewhere

    check = SchemaCheck(seconds, SETTINGS.assert_formats())
    bound = answered(getattr(backend, name), errors.VLLMValidationError, check)
    setattr(backend, name, bound)


def is_registered() -> bool:
    """Whether this process of vLLM runs its XGrammar backend over our names."""
    return isinstance(getattr(_modules()[1], "xgr", None), Names)


def _modules() -> tuple[ModuleType, ModuleType]:
    try:
        return importlib.import_module(MANAGER), importlib.import_module(BACKEND)
    except ModuleNotFoundError as error:
        raise _unknown(f"there is no module {error.name}") from error


def _look_at(manager: ModuleType, backend: ModuleType) -> None:
    """Raise `CannotRebind` unless the names are there, and used as they were."""
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
    """The names that the methods of a class read."""
    found: set[str] = set()
    for value in vars(kind).values():
        found |= _names_of(getattr(value, "__func__", value))  # of static methods
    return found


def _names_of(function: Any) -> set[str]:
    """The names that a function reads; none of what is no function of Python's."""
    code = getattr(getattr(function, "__wrapped__", function), "__code__", None)
    return {*code.co_names} if isinstance(code, CodeType) else set()


def _unknown(why: str) -> CannotRebind:
    version = getattr(importlib.import_module("vllm"), "__version__", "of an unknown version")
    return CannotRebind(
        f"equimask cannot serve structured outputs of vLLM {version}: {why}. Set {SETTINGS.enabled}=0 to run "
        "them in plain XGrammar, or install a release that docs/vllm.md names"
    )


class WarmBackend:
    """What makes vLLM's backend: hands over the one that is warm, to the engine that it was made for.

    Args:
        make: vLLM's own class.
    """

    def __init__(self, make: Callable[..., Any]) -> None:
        self.make = make
        self.kept: Any = None

    def __call__(self, vllm_config: Any, *arguments: Any, **options: Any) -> Any:
        kept, self.kept = self.kept, None
        if kept is not None and kept.vllm_config is vllm_config and not arguments:
            if all(getattr(kept, name, None) is value for name, value in options.items()):
                return kept
        return self.make(vllm_config, *arguments, **options)


def _warming(begin: Callable[..., None], backend: WarmBackend) -> Callable[..., None]:
    """A manager's ``__init__`` that makes everything warm, if its requests may come to XGrammar's backend."""

    @functools.wraps(begin)
    def begun(self: Any, vllm_config: Any, *arguments: Any, **options: Any) -> None:
        begin(self, vllm_config, *arguments, **options)
        ranks.note(vllm_config)
        if drafts.are_wanted(vllm_config):
            drafts.continue_drafts(self, vllm_config, _unknown)
        add_named_hook(SETTINGS.notices, SETTINGS.hook())
        chosen = vllm_config.structured_outputs_config.backend
        tokenizer = getattr(self, "tokenizer", None)  # none where prompts come as ids
        if tokenizer is None or not (chosen == "auto" or chosen.startswith("xgrammar")):
            return
        from adapters.vllm.warming import warm

        size = vllm_config.model_config.get_vocab_size()
        backend.kept = warm(lambda: backend.make(vllm_config, tokenizer=tokenizer, vocab_size=size))

    return begun
