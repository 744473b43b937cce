"""Tests of detectsched.simulate: the claims about fairness, on the real scripts in virtual time."""
