"""The rules that come with devlint: one module each, in a folder per family."""
