"""Requests to URLs of strangers."""
