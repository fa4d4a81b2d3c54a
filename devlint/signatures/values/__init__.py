"""Kinds, places, conditions and trails: pure data that knows no syntax."""
