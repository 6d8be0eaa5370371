"""Hyperparameter search on validation data."""
