"""What a server must survive: hostile input, budgets, kills, forks, long runs and mixed traffic.

What: tests, and three commands for real vocabularies and schemas: ``python -m tests.robustness.traffic``,
``.killed`` and ``.budgets``, each of which exits with status 1 if something is wrong.
When: before a release, and after a change of caches, deadlines, the guard or the tables of a classifier.
Limits: nothing here measures speed; `bench` does.
"""
