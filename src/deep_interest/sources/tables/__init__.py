"""Reader for a user's own tables: DuckDB loads any declared layout and converts it to canonical tables.

Start with `reader.read_tables`. The other modules, in the order in which the reader uses them:

- `declaration`: pydantic models of a dataset's ``source`` block.
- `files`: resolves file names, patterns, folders and partitions.
- `scan`: loads the files into DuckDB.
- `columns`: resolves columns and ids.
- `times`, `features`, `events`, `entities`: build the SQL of the canonical columns and tables.
- `checks`: reports or skips invalid rows.
"""
