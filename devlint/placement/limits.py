"""How far the model goes before it leaves a thing unknown."""

from __future__ import annotations

# Calls are followed this deep, less deep into other modules, and into long functions only where they are called
# directly: what they do rarely comes down to one story.
MAX_DEPTH = 4
MAX_DEPTH_OUTSIDE = 2
MAX_SIZE = 60
# A file's analysis walks at most this many statements.
BUDGET = 40_000
# Objects of classes without a constructor keep what they are given up to this many fields.
MAX_FIELDS = 12
# A module with more star imports than this gathers a library: looking through all of it for each name takes minutes.
MAX_STAR_IMPORTS = 8
