"""Engines of somebody else, good and bad; the payload says what to do."""

import os
import signal

from detectsched.detection import Box, Line
from detectsched.engines.plugin import EngineContext, Reading
from detectsched.errors import ConfigurationError, PayloadRejected


class Echo:
    """Gives the payload back, or misbehaves."""

    version = "1"

    def __init__(self, context: EngineContext) -> None:
        self._context = context

    def read(self, payload):  # type: ignore[no-untyped-def]
        """Do what the payload says."""
        text = payload.decode()
        match text:
            case "crash":
                os.kill(os.getpid(), signal.SIGSEGV)
            case "hang":
                signal.pause()
            case "raise":
                raise RuntimeError("it went wrong")
            case "reject":
                raise PayloadRejected("not_for_me", "this cannot be read")
            case "number":
                return 42
            case "nul":
                return "a\0b"
            case "half":
                return "a\ud800b"
            case "bytes":
                return Reading((Line(payload, Box(0, 0, 1, 1), 1.0),), 1, 1)
            case "boxes":
                return Reading((Line("boxed", Box(1, 2, 3, 4), 0.5),), 10, 20)
        return text


class Unversioned:
    """Has a version of the wrong type."""

    version = 1

    def __init__(self, context: EngineContext) -> None:
        pass


class Picky:
    """Never works here."""

    def __init__(self, context: EngineContext) -> None:
        raise ConfigurationError("install the model first")
