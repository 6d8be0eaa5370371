"""Compiled loops over arrays, which the operations of `deep_interest.ops` call; nothing else imports them.

A kernel works on one partition of an operation: its last two arguments are ``partition`` and ``partitions``, see
`runtime.parallel.run_kernel`. Comments mark arrays that a kernel writes as OUT, or as INOUT if it also reads them.
"""
