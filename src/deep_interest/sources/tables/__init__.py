"""Reader for a user's own tables: DuckDB loads any declared layout and converts it to canonical tables.

Start with `reader.read_tables`. The other modules, in the order in which the reader uses them:

- `declaration`, `column_declarations`: pydantic models of a dataset's ``source`` block.
- `files`: resolves file names, patterns, folders and partitions.
- `encodings`: converts files in other encodings to UTF-8.
- `dialect`: decides the delimiter of a CSV file and reads its header.
- `scan`: loads the files into DuckDB.
- `columns`: resolves columns and ids.
- `given`: histories, splits and requests of given samples.
- `expansion`, `lists`, `parallel_lists`: rows with lists of items, and logs without times.
- `times`, `decimals`, `features`, `events`, `entities`: build the SQL of the canonical columns and tables.
- `checks`: reports or skips invalid rows.

The log of an A/B test has a reader of its own, `exposures.read_exposures`, with the same files, ids, times and checks; its declaration is
`exposure_declaration`.
"""
