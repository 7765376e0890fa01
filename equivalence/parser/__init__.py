"""The parser: the automata of a grammar, stacks over them, and sets of stacks."""
