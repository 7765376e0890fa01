"""XGrammar's modules for other libraries, under the same names."""

from adapters.xgrammar.contrib import hf

__all__ = ["hf"]
