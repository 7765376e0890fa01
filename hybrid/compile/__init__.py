"""From a grammar to a compiled one: the choice of strategy, budgets, caches, and compiling in the
background."""
