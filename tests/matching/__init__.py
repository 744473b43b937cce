"""Tests of folding, matching and the places of hits."""
