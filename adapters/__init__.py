"""Adapters: they connect engines and libraries to the matchers of `hybrid`.

What: `transformers`, `continuous_batching` and `drafts` for transformers, `mlx_lm`, `outlines`, the plugins
`vllm` and `sglang`, and `xgrammar` for programs written for XGrammar. Nothing is imported here: import the
module that you need.
When: in place of your own decoding loop.
Limits: each needs its engine or library; an error names the command that installs it.
"""
