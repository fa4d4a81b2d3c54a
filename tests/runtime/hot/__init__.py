"""Programs whose waits are told by the linter and counted by virtual CUDA."""
