"""The runner: fetches tasks, examines them, persists what it found, and only then acknowledges."""
