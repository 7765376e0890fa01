"""Serving engines and libraries that the masks plug into, each in a module of its own."""
