"""JSON Schema as it was written: what does each engine let a model write, and at what cost?

What: `files` (MaskBench's layout), `judge` (what `jsonschema` says of an instance), `order` and `texts`
(how an instance may be written), `engines`, `measuring` (one schema on one engine), `worker` and `running`
(processes that can be ended, results that are kept), `summary` and `tables` (what came of it).
When: in ``python -m bench maskbench`` and ``python -m bench testsuite``.
Limits: each module says its own.
"""
