"""Kinds and places of values along one program's paths."""
