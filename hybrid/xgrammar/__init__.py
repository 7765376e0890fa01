"""Handle XGrammar's grammars: make them safe for its compiler, and find where they differ from their
schemas."""
