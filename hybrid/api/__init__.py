"""XGrammar's interface: compiler, compiled grammar, matcher, batch and bitmasks."""
