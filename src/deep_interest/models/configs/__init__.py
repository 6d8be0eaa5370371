"""Options of the models, one module per module of ``models``: they are validated without importing torch."""
