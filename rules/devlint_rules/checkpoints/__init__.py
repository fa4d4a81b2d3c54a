"""DEV3: checkpoints."""
