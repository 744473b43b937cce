"""What the demo shows: images of phone screens drawn by our own code, texts, and the words that are planted in them."""
