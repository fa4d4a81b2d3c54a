"""`python -m devlint`."""

import sys

# Python puts the working directory first, where a repository under review may have modules of any name.
if not sys.flags.safe_path:
    del sys.path[0]

from devlint.cli import main

if __name__ == "__main__":
    main()
