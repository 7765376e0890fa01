"""For tests and benchmarks: comparisons with plain XGrammar, and texts to compare on. Masks do not need this
room.
"""
