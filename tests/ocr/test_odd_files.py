"""The corpus of odd files against the decoder: what means harm is refused early and cheaply."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from detectsched.errors import PayloadRejected
from detectsched.ocr.decode import decode, decode_frames
from detectsched.ocr.formats import BadImage
from detectsched.ocr.frames import chosen_frames
from detectsched.settings import FramePolicy
from tests.ocr.corpus import HOSTILE, LEGIBLE
from tests.ocr.drawing import encoded
from tests.ocr.files import quickest

LIMIT = 40_000_000
MB = 1024 * 1024


def frames_of(data: bytes, policy: FramePolicy = FramePolicy.SAMPLE, most: int = 8) -> list[Any]:
    """Decode as an engine's process does by default."""
    return list(decode_frames(data, max_pixels=LIMIT, policy=policy, most=most))


@pytest.mark.parametrize("name", HOSTILE)
def test_every_hostile_file_is_refused_within_50_ms(name: str) -> None:
    """For the right reason, whatever policy for frames there is."""
    make, reason = HOSTILE[name]
    data = make()

    def refuse() -> str:
        with pytest.raises(PayloadRejected) as rejected:
            frames_of(data)
        return rejected.value.reason

    assert refuse() == reason
    assert quickest(refuse) < 0.05


MEASURE = """
import json, resource, sys
from pathlib import Path
from detectsched.errors import PayloadRejected
from detectsched.ocr.decode import decode_frames
from detectsched.settings import FramePolicy
def decode(data):
    try:
        for _ in decode_frames(data, max_pixels=40_000_000, policy=FramePolicy.SAMPLE, most=8): pass
    except PayloadRejected: pass
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
first, *others = sorted(Path(sys.argv[1]).iterdir())
decode(first.read_bytes())
grown = {}
for file in others:
    data, before = file.read_bytes(), peak()
    decode(data)
    grown[file.name] = peak() - before
print(json.dumps(grown))
"""


def test_no_hostile_file_takes_100_mb(tmp_path: Path) -> None:
    """Measured as the peak of a process that decodes them one after the other."""
    (tmp_path / "0").write_bytes(encoded(Image.new("RGB", (720, 640))))
    for name, (make, _) in HOSTILE.items():
        (tmp_path / f"1 {name.replace('/', ' ')}").write_bytes(make())
    output = subprocess.run([sys.executable, "-c", MEASURE, tmp_path], check=True, capture_output=True).stdout
    grown = json.loads(output)
    assert len(grown) == len(HOSTILE)
    assert max(grown.values()) < 100 * MB, grown


@pytest.mark.parametrize("name", LEGIBLE)
def test_no_pixel_depends_on_what_was_decoded_before(name: str) -> None:
    """Neither on another image nor on a refused one: each gives the same array first and last."""
    data = LEGIBLE[name]()
    first = decode(data, max_pixels=LIMIT)
    secret = encoded(Image.effect_noise((460, 190), 120).convert("RGB"), "JPEG", quality=90)
    decode(secret, max_pixels=LIMIT)
    with pytest.raises(PayloadRejected):
        decode(secret[: len(secret) // 2], max_pixels=LIMIT)
    assert np.array_equal(decode(data, max_pixels=LIMIT), first)


def coloured(name: str, count: int, **options: Any) -> bytes:
    """Return a file whose frames are ever lighter."""
    first, *others = (Image.new("RGB", (64, 48), (10 * n % 256, 0, 0)) for n in range(count))
    return encoded(first, name, save_all=True, append_images=others, **options)


@pytest.mark.parametrize(("name", "options"), [("GIF", {}), ("WEBP", {"lossless": True}), ("PNG", {}), ("TIFF", {})])
def test_frames_are_read_by_policy(name: str, options: dict[str, Any]) -> None:
    """First: one. Sample: all of few, evenly chosen of many, the ends among them. All: all, or none."""
    data = coloured(name, 10, **options)
    assert len(frames_of(data, FramePolicy.FIRST)) == 1
    assert [frame[0, 0, 2] for frame in frames_of(data, FramePolicy.ALL, 10)] == [10 * n for n in range(10)]
    assert [frame[0, 0, 2] for frame in frames_of(data, most=4)] == [0, 30, 60, 90]
    with pytest.raises(PayloadRejected, match="there are 10 frames or pages") as rejected:
        frames_of(data, FramePolicy.ALL, 9)
    assert rejected.value.reason == "too_many_frames"


def test_frames_that_look_alike_are_read_once() -> None:
    """An animation that stands still costs what an image does."""
    still = Image.new("RGB", (64, 48), "white")
    data = encoded(still, "TIFF", save_all=True, append_images=[still.copy() for _ in range(5)])
    assert len(frames_of(data)) == 1


def test_frames_together_have_no_more_pixels_than_one_image_may() -> None:
    """Whatever the cap on frames says; and frames that cost a long way to reach are left out."""
    wanted = {"policy": FramePolicy.SAMPLE, "max_pixels": 1000}
    assert chosen_frames(8, 500, most=8, **wanted) == [0, 7]  # type: ignore[arg-type]
    assert chosen_frames(100, 100, most=8, **wanted) == [0, 6, 11, 17, 22, 28, 33, 39]  # type: ignore[arg-type]
    assert chosen_frames(100, 900, most=8, **wanted) == [0]  # type: ignore[arg-type]
    assert chosen_frames(1, 900, most=8, **wanted) == [0]  # type: ignore[arg-type]
    with pytest.raises(BadImage):
        chosen_frames(3, 500, policy=FramePolicy.ALL, most=8, max_pixels=1000)


def test_an_animation_of_ten_thousand_frames_has_an_end() -> None:
    """A few are read, of those that can be reached quickly."""
    gif = coloured("GIF", 30)
    body = gif.index(b"\x2c", 13)
    endless = gif[:-1] + gif[body:-1] * 400 + b"\x3b"
    assert len(frames_of(endless)) == 8
    assert quickest(lambda: frames_of(endless)) < 0.5
