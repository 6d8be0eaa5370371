"""The command ``deep-interest``: download, check, explain, registry. Everything else is ``kedro``.

The package is not called ``cli``, because Kedro looks for commands of its own in ``<package>.cli``.
"""
