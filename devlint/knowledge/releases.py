"""What tells of which releases of PyTorch code is written for."""

from __future__ import annotations

# What releases before 0.4 wanted, and later ones have no use for, or refuse.
BEFORE_0_4 = r"\bvolatile\s*=\s*\w|loss\w{0,30}\.data\[0\]|VERSION_LESS_THAN_0"
# What those releases didn't have: devices as objects, factories that take one, `map_location` as text.
SINCE_0_4 = r"\.to\(|\bdevice\b|\bmap_location\b|\.cpu\("
