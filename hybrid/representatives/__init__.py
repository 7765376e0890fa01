"""The strategy that runs XGrammar over one token for each class, and expands its masks with the gather."""
