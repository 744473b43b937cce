"""The commands, on running systems."""
