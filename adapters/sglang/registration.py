"""Registering the grammar backend with SGLang.

What: `register` adds the name to the choices of ``--grammar-backend``, and to the registry of backends.
When: called by SGLang in every process, perhaps more than once, before it reads its command line.
Limits: SGLang logs errors of a plugin and continues. Then the name is not a choice, and a server that uses it
does not start.
"""

from __future__ import annotations

import importlib
import logging
from typing import Any

from adapters.sglang.settings import SETTINGS

logger = logging.getLogger("sglang.equimask")

NAME = "equimask"

CHOICES = "sglang.srt.arg_groups.choices"
BASE = "sglang.srt.constrained.base_grammar_backend"
NEEDED = (
    (CHOICES, "GRAMMAR_BACKEND_CHOICES"),
    (CHOICES, "add_grammar_backend_choices"),
    (BASE, "GRAMMAR_BACKEND_REGISTRY"),
    (BASE, "register_grammar_backend"),
)


class CannotRegister(RuntimeError):
    """This release of SGLang does not accept a grammar backend, or the name is taken."""


def register() -> None:
    """Make ``--grammar-backend equimask`` a choice, unless that is done already.

    Raises:
        CannotRegister: the adapter does not know this release of SGLang.
    """
    choices, add, registry, put = (_found(module, name) for module, name in NEEDED)
    if registry.get(NAME, create) is not create:
        raise _cannot(f"another plugin has registered a grammar backend called {NAME}")
    if NAME not in choices:
        add([NAME])
    if NAME not in registry:
        put(NAME, create)
        logger.info("added --grammar-backend %s; with %s=0 it is plain XGrammar", NAME, SETTINGS.enabled)
    if NAME not in choices or not is_registered():
        raise _cannot("the registered grammar backend cannot be found")


def is_registered() -> bool:
    """Whether this process of SGLang knows the backend."""
    registry: dict[str, Any] = _found(BASE, "GRAMMAR_BACKEND_REGISTRY")
    return registry.get(NAME) is create


def create(*arguments: Any, **options: Any) -> Any:
    """Make the backend for SGLang's registry. Imports are made only here."""
    from adapters.sglang.backend_factory import create_backend

    return create_backend(*arguments, **options)


def _found(module: str, name: str) -> Any:
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise _cannot(f"there is no module {error.name}") from error
    if not hasattr(found, name):
        raise _cannot(f"{module} has no {name}")
    return getattr(found, name)


def _cannot(why: str) -> CannotRegister:
    version = getattr(importlib.import_module("sglang"), "__version__", "of an unknown version")
    return CannotRegister(
        f"equimask cannot serve structured outputs of SGLang {version}: {why}. Serve with another "
        "--grammar-backend, or install a release that docs/sglang.md names"
    )
