"""Scoring with a trained model."""
