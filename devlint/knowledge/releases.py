"""What tells of which releases of PyTorch, and of Python, code is written for."""

from __future__ import annotations

# What releases before 0.4 wanted, and later ones have no use for, or refuse, as Python itself does by now (`async=` of a copy).
# A loss has no dimension since 0.4, so that taking its first element is an IndexError. Triton has a `volatile=` of its own.
BEFORE_0_4 = (
    r"[Vv]ar\w{0,20}\([^\n]{0,200}\bvolatile\s*=\s*\w|\.volatile\s*=\s*\w"
    r"|(?:loss|err|cost)\w{0,30}\.data\[0\]"
    r"|\.cuda\([^()\n]{0,60}\basync\s*=|VERSION_LESS_THAN_[0]"
)
# What a project that runs on those releases says of itself: `torch>=0.3.1`, "PyTorch 0.2".
SAYS_BEFORE_0_4 = r"(?i)torch[^a-z0-9\n]{0,12}(?:version)?[ :=>~v(*`]{0,8}0\.[1-3](?:\.\d)?(?![\d])"
# What came with 0.4: a file that says it runs on no release before, whatever others of its project do.
SINCE_0_4 = r"\.item\(\)|\btorch\.(?:device|no_grad|set_grad_enabled|inference_mode)\b"

# What only Python 2 reads: `print "done"`.
PYTHON_2 = r"(?m)^[ \t]{0,40}print[ \t]{1,9}['\"]"
# What only Python 3 reads: `super().__init__()`, `f"{x}"`, `def f(x) -> int`, and words of its own.
PYTHON_3 = r"\bsuper\(\)|(?<![\w'\"])[fF]['\"]|\)\s{0,9}->|\b(?:nonlocal|async def|yield from)\b"
