"""For tests and benchmarks, out of the way of masks: comparisons with plain XGrammar, and texts to compare
on."""
