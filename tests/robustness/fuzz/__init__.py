"""Random grammars of every kind against plain XGrammar and Lark, on every strategy.

What: `__main__` is the command and its counts, `inputs` draws cases (`grammars`, `schemas`), `run` walks
through them (`walks`, `truth`), `workers` are the processes that do so.
When: ``python -m tests.robustness.fuzz``, before a release, for an hour that should stay quiet; and with
``--cases N`` after any change of masks.
Limits: random walks visit few states of each grammar.
"""
