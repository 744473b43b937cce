"""All tests; `tests/story/` tells the life of a task in order and is the place to begin."""
