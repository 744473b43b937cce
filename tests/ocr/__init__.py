"""Images to text."""
