"""``python -m detectsched`` is the same as the ``detectsched`` command."""

from detectsched.cli.main import app

app()
