"""Searching options of a row on validation data."""
