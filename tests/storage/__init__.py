"""Where images are kept."""
