"""What tells of which releases of PyTorch code is written for."""

from __future__ import annotations

from devlint.regexes import regex

# The number of a loss as releases before 0.4 gave it; since 0.5, that is an IndexError.
OF_OLD_LOSSES = regex(r"loss\w{0,30}\.data\[0\]")
# What those releases wanted, and later ones have no use for, or refuse.
BEFORE_0_4 = rf"\bvolatile\s*=\s*\w|{OF_OLD_LOSSES.pattern}|VERSION_LESS_THAN_[0]"
# What those releases didn't have: devices as objects, factories that take one, `map_location` as text.
SINCE_0_4 = r"\.to\(|\bdevice\b|\bmap_location\b|\.cpu\("
# What a project that runs on those releases says of itself: `torch>=0.3.1`, "PyTorch 0.2".
SAYS_BEFORE_0_4 = r"(?i)torch[^a-z0-9\n]{0,12}(?:version)?[ :=>~v(*`]{0,8}0\.[1-3](?:\.\d)?(?![\d])"
