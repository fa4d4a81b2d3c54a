"""What calls of things outside the project mean: torch, Python, NumPy and the frameworks."""
