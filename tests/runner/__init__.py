"""Tests of the runner's parts."""
