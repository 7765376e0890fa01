"""JSON Schema as it was written: what does each engine let a model write, and at what cost?

What: `files` (MaskBench's structure), `judge` (the verdicts of `jsonschema`), `order` and `texts` (how an
instance may be written), `engines`, `measurement` (one schema on one engine), `worker` and `runner`
(processes that can be killed, results that are kept), `summary` (the results).
When: in ``python -m bench maskbench`` and ``python -m bench testsuite``.
Limits: see each module.
"""
