"""All benchmarks at once, with peers side by side, as pages: ``python -m bench report``.

`inputs` is what a user passes, `questions` says which benchmarks answer which question, and `jobs` runs them
and keeps their records. `answers` makes tables from records, with `requests`, `grammars`, `others` and
`as_written`; each command prints those of its record. `plots` makes pictures; `facts` collects everything.
`page` writes HTML, and `markdown` the page of the documentation and the README's numbers. `command` is the
command line; `differences` compares two records.
"""
