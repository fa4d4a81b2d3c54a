"""What was found in files that are as they were, kept from run to run.

`store.py` keeps rows in an SQLite file; `shapes.py` turns findings to data and back; `identity.py` tells which devlint and
which rules are at work; `folder.py` makes and empties the folder; `results.py` joins them: which results still hold.
"""
