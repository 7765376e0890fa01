"""Make XGrammar's grammars safe for its compiler, and find where they differ from their schemas."""
