"""Helpers of the tests; nothing here is shipped."""
