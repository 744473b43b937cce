"""Engines by name."""
