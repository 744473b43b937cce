"""Engines by name: what turns a payload into text. `ocr` is built in, others plug in as entry points."""
