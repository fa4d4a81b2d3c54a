"""The way into an existing project: what is new is told apart from what was there before.

`marks.py` knows a finding again; `baseline.py` keeps the old ones in a file, `since.py` finds them in another revision,
which `git.py` reads; `noqa.py` writes comments; `project.py` looks at a project and `setup.py` proposes its settings.
"""
