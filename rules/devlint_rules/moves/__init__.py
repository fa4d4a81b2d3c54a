"""DEV1: moves whose result or effect is lost."""
