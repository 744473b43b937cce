"""Where images are kept: a local directory, or S3 and what speaks it. ``blobs`` is the door."""
