"""The peers, one file each: llguidance, CFGzip, XGrammar of other versions, Lark on its own grammars, and
others.

What: each peer runs the same grammars and the same tokens as equimask. XGrammar is used everywhere:
`bench.workloads` makes its compilers, `hybrid.testing.mask_comparison` compares masks with it.
When: in the benchmarks; llguidance and CFGzip only if they are installed (the extra ``bench`` has both).
Limits: each file says which results of a peer can be compared.
"""
