"""DEV7: code that is meant for any accelerator."""
