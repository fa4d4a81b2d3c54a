"""DEV4: parallel wrappers."""
