"""Random PyTorch programs, run under virtual CUDA to tell which findings are true.

`write_program` writes one, `run` says what it does, and `judge` compares that with what devlint says. `programs()` is the
strategy for hypothesis.
"""
