"""The peers, one file each: llguidance, CFGzip, XGrammar of other versions, and Lark on its own grammars.

What: each runs the same grammars and the same tokens as we do. XGrammar is everywhere: `bench.workloads`
makes its compilers, `hybrid.testing.verify` compares masks with it.
When: in the benchmarks; llguidance and CFGzip only where they are installed (the extra ``bench`` has both).
Limits: each file says what of a peer is comparable, and what is not.
"""
