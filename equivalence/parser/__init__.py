"""The parser: the automata of a grammar, the stacks over them, and the sets of stacks that text leads to."""
