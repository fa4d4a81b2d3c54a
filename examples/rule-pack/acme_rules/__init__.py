"""Rules for devlint, one module each."""
