"""The command ``deep-interest``: download, check, explain, registry. Everything else is ``kedro``."""
