"""One point of a program: what names, objects and containers hold there."""
