"""Tests of detectsched.queueing on the real server."""
