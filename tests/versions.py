"""What tests ask of the XGrammar that is installed, where its versions differ.

What: marks for tests whose expectation holds from a version on, and `meant_here`, a case without what older
versions read otherwise.
When: imported by tests that also run under another version (`tests.robustness.another_xgrammar`).
Limits: what older versions read in its place is compared with them in `tests/test_dialect.py`.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.cases import Case
from equivalence.network import dialect

strict_classes = pytest.mark.skipif(dialect.LOOSE, reason="XGrammar before 0.2.8 reads classes otherwise")
whole_repeats = pytest.mark.skipif(
    dialect.TAKES_PARTS, reason="XGrammar 0.2.7 takes parts of repeats in repeats"
)

ids_as_wholes = pytest.mark.skipif(
    dialect.JOINS_TOKENS, reason="XGrammar from 0.2.9 on runs grammars that name token ids itself"
)

READS_STOPS = dialect.JOINS_TOKENS
"""Whether XGrammar reads a stop token as text where this completes the text, as from 0.2.9 on. Its masks then
allow no stop token where the grammar's end alone ends the sequence (`terminate_without_stop_token`)."""

CONFUSES_PARTS = not dialect.JOINS_TOKENS
"""Whether XGrammar takes some parts of a JSON schema for each other, and reads a few keywords wrongly, as
before 0.2.9. What is listed about a schema (`relaxed`, `narrowed`) is the same under every version."""

any_separators = pytest.mark.skipif(
    dialect.LAYOUT != "v16", reason="XGrammar from 0.2.9 on refuses control characters in separators"
)

WIDE_NEGATIVE = "negative-wide-class"
"""Feature of cases that exclude characters beyond ASCII, which loose versions read in two ways."""


def meant_here(case: Case) -> Case | None:
    """A case with strings that mean here what it says; None: it means something else."""
    if not dialect.LOOSE:
        return case
    if WIDE_NEGATIVE in case.features:
        return None
    return replace(case, rejects=tuple(one for one in case.rejects if _is_text(one)))


def _is_text(string: bytes) -> bool:
    try:
        string.decode()
    except UnicodeDecodeError:
        return False
    return True
