"""Pictures and pages from trained rows."""
