"""The life of a task, told in order: a newcomer reads this first."""
