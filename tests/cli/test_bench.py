"""The commands that measure are there, each under its name."""

from __future__ import annotations

from detectsched.cli.tools import bench


def test_every_benchmark_is_a_command() -> None:
    """What is merged in from several hands may lose its decorator."""
    names = {command.name or command.callback.__name__ for command in bench.registered_commands if command.callback}
    assert {"latency", "pressure", "ocr", "batching", "matching", "rebuild"} <= names
