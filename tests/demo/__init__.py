"""Tests of the demo's images, texts and words."""
