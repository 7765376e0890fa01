"""Benchmarks: how fast and how exact the compression layer is, next to plain XGrammar and other peers.

What: ``python -m bench NAME --json FILE`` measures, compares every mask first, prints a table and writes
a record.
When: before a number is published, and when a change might cost speed.
Limits: numbers hold for the machine in the record; nothing here is asserted but equality.
"""
