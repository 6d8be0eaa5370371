"""Batch retraining: days that arrive are checked, trained on and judged; what is better serves, what is not is kept out."""
