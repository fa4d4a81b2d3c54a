"""DEV5: hot loops."""
