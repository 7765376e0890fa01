"""Compile grammars: budgets, the choice of a strategy, caches, and compilation in the background."""
