"""Batch retraining: new days are checked and trained on; a gate promotes the new version only if it is better."""
