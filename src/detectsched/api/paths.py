"""Parameters of paths that Starlette has no words for."""

from __future__ import annotations

from typing import ClassVar, Final

from starlette.convertors import Convertor, register_url_convertor


class _ObjectNames(Convertor[str]):
    """An object's name: slashes are part of it, since a server is not told which of them were escaped as ``%2F``.

    What ends as the path of another operation on objects is not taken for a name, so that a wrong method on that path
    is answered as one. An object of such a name has tasks like any other; only its own page cannot be asked for.
    """

    regex: ClassVar[str] = r"(?:(?!/(?:pause|resume|commands|commands/[^/]+/ack)\Z)[\s\S])+"

    def convert(self, value: str) -> str:
        """Return the name."""
        return value

    def to_string(self, value: str) -> str:
        """Return the path of the name."""
        return value


register_url_convertor("object_name", _ObjectNames())

OBJECT: Final = "{name:object_name}"
"""Stands in the path of a route for the name of an object, which is its parameter ``name``."""
