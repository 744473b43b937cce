"""Tests of the checker and of the programs that break things, on real stores."""
