"""Where devlint is to be found: the one place that names its repository and its pages.

The repository has no home yet: the address below is a placeholder, and is changed here alone (README.md, docs/ and
action.yml repeat it, which a test looks at).
"""

from __future__ import annotations

REPOSITORY = "https://github.com/devlint/devlint"
DOCUMENTATION = "https://devlint.github.io/devlint"


def rule_page(code: str) -> str:
    """The page of one of devlint's own rules."""
    return f"{DOCUMENTATION}/rules/{code}/"
