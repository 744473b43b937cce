"""Says at start when several OpenCV packages overwrite each other in this environment."""

from __future__ import annotations

import importlib.metadata
from typing import Final

from detectsched.errors import ConfigurationError

_DISTRIBUTIONS: Final = (
    "opencv-python-headless",
    "opencv-contrib-python",
    "opencv-contrib-python-headless",
    "opencv-python",
)
_WANTED: Final = {"rapidocr": "opencv-python-headless", "paddle": "opencv-contrib-python"}
"""What each engine's own package asks for."""


def installed_opencv() -> dict[str, str]:
    """Return the OpenCV distributions of this environment and their versions."""
    found = {}
    for name in _DISTRIBUTIONS:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def check_opencv(engine: str, found: dict[str, str]) -> None:
    """Refuse an environment whose ``cv2`` is a mixture (docs/decisions/0006-ocr-engines-apart.md).

    Several packages of one version are the same code with other extras and do no harm.

    Raises:
        ConfigurationError: with the commands that put it right.
    """
    if len(set(found.values())) < 2:
        return
    keep = _WANTED[engine] if _WANTED[engine] in found else next(iter(found))
    surplus = " ".join(name for name in found if name != keep)
    listed = ", ".join(f"{name} {version}" for name, version in found.items())
    raise ConfigurationError(
        f"several OpenCV packages overwrite each other here ({listed}), and the last one installed wins. Keep the one "
        f"{engine} asks for: pip uninstall -y {surplus} && "
        f"pip install --force-reinstall --no-deps {keep}=={found[keep]}"
    )
