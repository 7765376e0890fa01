"""Adapters for serving engines and libraries, each in a module of its own."""
