"""Statements, expressions, calls, containers and classes, read once each to signatures."""
