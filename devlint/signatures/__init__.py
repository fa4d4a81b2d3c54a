"""Every function understood once, for any device: what it needs to be together, what it gives, what it changes.

The rooms, each of which imports only those before it: `values` (kinds, places, conditions: pure data), `libraries` (what
outside calls mean), `reading` (statements and expressions to signatures), `answers` (what rules ask).
"""
