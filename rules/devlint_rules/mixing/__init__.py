"""DEV2: tensors at different places."""
