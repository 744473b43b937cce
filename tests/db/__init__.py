"""Tests of detectsched.db on the real server."""
