"""Messages instead of tracebacks: what is wrong, where, what was found, and what to do.

`report` turns an exception into its message; the other modules know the exceptions of one kind:

=================  ==============================================================================
`system`           the operating system, databases and memory: permissions, full disks, damage
`validation`       pydantic's errors of parameters
`configuration`    YAML files of the project, and where in them a parameter or an entry is
`selection`        names of pipelines, nodes, tags and catalog entries on the command line
=================  ==============================================================================
"""
