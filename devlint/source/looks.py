"""What a run asked about the files around those that it lints, with the answers, by the file that it asked for.

A question is a few words of text, such as `("place", "pkg.net", "/src")`; `devlint/source/project.py` answers them.
What was found in a file holds for as long as each question behind it is answered as before: those that were asked for
the file itself, and for each file that was read for it. What was looked for in vain is a question like any other.
"""

from __future__ import annotations
