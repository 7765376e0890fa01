"""Regular languages of strings and numbers, and how JSON spells them. This room does not know schemas."""
