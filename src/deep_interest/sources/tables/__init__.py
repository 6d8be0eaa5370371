"""The reader of a user's own tables: any layout that a dataset's block declares, read by DuckDB into canonical tables.

Start with `reader.read_tables`. `declaration` has the pydantic models of a block; `files` resolves names and patterns,
`scan` loads files into the database, `columns` resolves columns and ids, and `times`, `features`, `events` and
`entities` write the SQL of the canonical columns; `checks` reports the rows that cannot be used.
"""
