"""Code as text and trees: what stands where, and what imports what, nothing being understood yet."""
