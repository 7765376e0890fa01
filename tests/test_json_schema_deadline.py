"""The time limit of schemas with long lists."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from equivalence import BudgetExceeded
from equivalence.deadline import Deadline
from hybrid.json_schema import grammar_of_schema
from tests.test_json_schema_meaning import OPEN


@pytest.mark.parametrize(
    "schema",
    [
        '{"enum": [' + ",".join(f"{number}e-390" for number in range(1, 10_000)) + "]}",
        {"allOf": [{"$comment": "x"}] * 200_000},
        {"enum": [list(range(number)) for number in range(1000)]},
        {"anyOf": [{"const": f"s{number}"} for number in range(100_000)]},
    ],
    ids=["small numbers", "comments", "arrays", "texts"],
)
def test_reading_long_lists_looks_at_the_deadline(schema: Any) -> None:
    """These took 2 to 8 s more than they were given."""
    text = schema if isinstance(schema, str) else json.dumps(schema)
    began = time.process_time()
    with pytest.raises(BudgetExceeded):
        grammar_of_schema(text, OPEN, deadline=Deadline(0.2))
    assert time.process_time() - began < 1.5
