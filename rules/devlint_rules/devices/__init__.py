"""DEV6: choosing devices."""
