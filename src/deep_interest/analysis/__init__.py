"""Analysis of trained models: which behaviours a prediction depends on, and the structure of embeddings."""
