"""Reports, charts and explanations made from trained models."""
