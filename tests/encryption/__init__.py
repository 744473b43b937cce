"""Tests of encrypted requests, and of what is encrypted at rest."""
