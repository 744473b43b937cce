"""Tests of detectsched.dispatcher on the real servers."""
