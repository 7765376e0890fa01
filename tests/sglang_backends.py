"""Backends of the SGLang adapter over the stand-in and a small vocabulary.

What: `installed` puts the stand-in into `sys.modules`, `maker` makes backends as SGLang does, `stock` makes
the stand-in's own backend.
When: in tests of `adapters.sglang` that do not need SGLang.
Limits: one stand-in at a time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.engines import SIZE, STOP, TEXTS
from tests.sglang_stand_in import BASE, XGrammarGrammarBackend, stand_in
from tests.stand_ins import Put, standing_in


@contextlib.contextmanager
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Put]:
    """Yield a function that installs a stand-in for SGLang and imports the adapter, see `standing_in`."""
    for name in ("", "_COMPILE_SECONDS", "_CACHE_MB"):
        monkeypatch.delenv(f"EQUIMASK_SGLANG{name}", raising=False)
    with standing_in("sglang", stand_in) as put:
        yield put


def maker(put: Put) -> Callable[..., Any]:
    """Return a function that makes backends as SGLang's registry does."""

    def made(texts=TEXTS, override=None, tp_size=1, pp_size=1, speculates=None, **serving):
        adapter, modules = put(**serving)
        adapter.register()
        create = modules[BASE].GRAMMAR_BACKEND_REGISTRY["equimask"]
        arguments = SimpleNamespace(tp_size=tp_size, pp_size=pp_size, speculative_algorithm=speculates)
        return create(arguments, SimpleNamespace(texts=texts, override=override), SIZE, {STOP})

    return made


@pytest.fixture(name="sglang")
def fixture_sglang(monkeypatch):
    """The function of `installed`."""
    with installed(monkeypatch) as put:
        yield put


@pytest.fixture(name="make")
def fixture_make(sglang):
    """The function of `maker`."""
    return maker(sglang)


def stock(override=None, **options):
    """Return SGLang's own backend, as the stand-in implements it."""
    tokenizer = SimpleNamespace(texts=TEXTS, override=override)
    return XGrammarGrammarBackend(tokenizer, SIZE, model_eos_token_ids=[STOP], **options)
