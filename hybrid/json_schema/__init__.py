"""Exact JSON Schema: from a schema to a grammar of the JSON texts that are valid under it.

The entry point is `grammar_of_schema`. docs/json-schema.md says what is guaranteed, and how it works.
"""

from hybrid.json_schema.errors import SchemaRefused
from hybrid.json_schema.grammar import (
    LeftOut,
    SchemaGrammar,
    grammar_of_schema,
    in_xgrammar,
    read_schema,
)
from hybrid.json_schema.languages.formats import make_common
from hybrid.json_schema.layout import MOST_WHITE_SPACE
from hybrid.json_schema.nonterminals import Bounds
from hybrid.json_schema.references import Documents, documents_of, load_referencing
from hybrid.json_schema.uniqueness.places import Places

__all__ = [
    "MOST_WHITE_SPACE",
    "Bounds",
    "Documents",
    "LeftOut",
    "Places",
    "SchemaGrammar",
    "SchemaRefused",
    "documents_of",
    "grammar_of_schema",
    "in_xgrammar",
    "load_referencing",
    "make_common",
    "read_schema",
]
