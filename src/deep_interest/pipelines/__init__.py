"""The pipelines: thin nodes over the floors below, one folder each."""
