"""Says at start when OpenCV packages have overwritten each other here, and keeps OpenCV from decoding."""

from __future__ import annotations

import importlib.metadata
from typing import Any, Final, NoReturn

from detectsched.errors import ConfigurationError

_DISTRIBUTIONS: Final = (
    "opencv-python-headless",
    "opencv-contrib-python",
    "opencv-contrib-python-headless",
    "opencv-python",
)
_WANTED: Final = {"rapidocr": "opencv-python-headless", "paddle": "opencv-contrib-python"}
"""What each engine's own package asks for."""
_DECODERS: Final = ("imread", "imreadmulti", "imreadanimation", "imdecode", "imdecodemulti", "imdecodeanimation")
"""Of ``cv2``, as far as it has them."""


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
    keep = _kept(engine, found)
    surplus = " ".join(name for name in found if name != keep)
    listed = ", ".join(f"{name} {version}" for name, version in found.items())
    raise ConfigurationError(
        f"several OpenCV packages overwrite each other here ({listed}), and the last one installed wins. Keep the one "
        f"{engine} asks for: pip uninstall -y {surplus} && "
        f"pip install --force-reinstall --no-deps {keep}=={found[keep]}"
    )


def guard_opencv(engine: str, found: dict[str, str], cv2: Any) -> None:
    """Refuse an imported ``cv2`` that is not what is installed, and keep it from decoding.

    OpenCV 4.10, which PaddleX pins, shows rows of the image decoded before in one that is cut short (opencv issue
    26488). `decode` does all decoding, and an engine's library that tries to gets an exception instead.

    Args:
        engine: which engine.
        found: as `installed_opencv`.
        cv2: the module.

    Raises:
        ConfigurationError: with the command that puts it right.
    """
    imported = str(getattr(cv2, "__version__", "nothing"))
    if found and not any(version == imported or version.startswith(f"{imported}.") for version in found.values()):
        keep = _kept(engine, found)
        raise ConfigurationError(
            f"{keep} {found[keep]} is installed, but the cv2 that is imported is {imported}: another OpenCV package "
            f"has overwritten it. pip install --force-reinstall --no-deps {keep}=={found[keep]}"
        )
    for name in _DECODERS:
        if hasattr(cv2, name):
            setattr(cv2, name, _refuse)


def _kept(engine: str, found: dict[str, str]) -> str:
    return _WANTED[engine] if _WANTED[engine] in found else next(iter(found))


def _refuse(*_: object, **__: object) -> NoReturn:
    raise RuntimeError("OpenCV does not decode here: it may show pixels of other images (docs/decisions/0006)")
