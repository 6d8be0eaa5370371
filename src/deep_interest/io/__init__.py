"""Files that survive a kill: atomic writes, checksums of everything that is read back, locks between processes."""
