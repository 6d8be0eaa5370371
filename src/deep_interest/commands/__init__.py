"""Commands: ``deep-interest`` (download, check, explain, registry), and Kedro's ``run`` and ``registry`` with plain messages."""
