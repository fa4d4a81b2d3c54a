"""What rules ask of the signatures."""
