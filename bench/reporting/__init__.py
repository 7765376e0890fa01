"""The questions of the README asked at once, peers side by side, as pages: ``python -m bench report``.

`inputs` is what a user has, `questions` says which benchmarks answer what, `jobs` runs them and keeps their
records. `answers` makes tables of records with `requests`, `grammars` and `others`, `plots` pictures, `facts`
puts all together; `page` writes HTML, `markdown` the page of the documentation and the README's numbers.
`command` is the command line; `differences` compares two records.
"""
