"""Tests of what webhooks are told with."""
