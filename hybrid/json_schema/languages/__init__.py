"""Regular languages of strings and numbers, and how JSON spells them: knows nothing of schemas."""
