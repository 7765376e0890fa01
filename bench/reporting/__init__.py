"""The questions of the README asked at once, peers side by side, as one page: ``python -m bench report``.

`jobs` runs benchmarks and keeps their records, `questions` says which ones, `answers` makes tables of the
records, `plots` pictures, `page` HTML, `command` is the command line; `differences` compares two records.
"""
