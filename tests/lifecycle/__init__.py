"""The contract of every long-running thing: start, wait, fail, stop."""
