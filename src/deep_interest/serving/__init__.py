"""Model registry, versions of a model, and scoring with a trained model."""
