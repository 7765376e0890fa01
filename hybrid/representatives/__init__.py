"""XGrammar over one token for each class: its engines, and the gather that expands what they decide."""
