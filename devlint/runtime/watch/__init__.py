"""Watching devices: where tensors are made and moved, what makes the host wait, and why operands don't meet."""
