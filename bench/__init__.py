"""Benchmarks: how fast and how exact equimask is, compared with plain XGrammar and other peers.

What: ``python -m bench NAME --json FILE`` first compares every mask, then measures, prints a table and writes
a record.
When: before a number is published, and when a change might cost speed.
Limits: numbers hold for the machine in the record. Nothing is asserted except that masks are equal.
"""
