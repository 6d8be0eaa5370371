"""The path from canonical tables to samples on an engine, DuckDB or Spark, from one definition.

The definition are ibis expressions and one function for each partition of the users:

1. `vocabularies`: the ids of users and items.
2. `encoded`: behaviours and impressions with codes, stored in partitions by a hash of the user.
3. `ordered_log`: the sorted log: position, split and ends of the history of each behaviour.
4. `catalogue` and `by_day`: samples; `negatives` is the function that chooses negatives for each partition.
5. `outputs`: the behaviour log, the features and the summary, from what the engine has stored.

`engine` describes what an engine does; `duckdb_engine` and `spark_engine` are the two. Random choices are those of
`logs.hashing`, so that the samples are equal to those of the NumPy path with ``protocol.sampling: hashed``, whatever
the engine and the number of partitions.
"""
