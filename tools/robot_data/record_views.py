#!/usr/bin/env python3
"""Records openpi's resize_with_pad, done with Pillow: tests/fixtures/robot/views.json.

    pip install pillow==13.0.0 numpy && python3 record_views.py views.json
"""

import json
import sys

import numpy as np
from PIL import Image

SIDE = 20


def picture(width: int, height: int) -> np.ndarray:
    """Whole numbers by a formula that the test repeats."""
    y, x, c = np.meshgrid(np.arange(height), np.arange(width), np.arange(3), indexing="ij")
    return ((x * x * 7 + y * 31 + x * y * 5 + c * 80) % 256).astype(np.uint8)


def resized_with_pad(image: Image.Image, side: int) -> np.ndarray:
    ratio = max(image.width / side, image.height / side)
    width, height = int(image.width / ratio), int(image.height / ratio)
    square = Image.new("RGB", (side, side), 0)
    square.paste(image.resize((width, height), Image.BILINEAR), ((side - width) // 2, (side - height) // 2))
    return np.asarray(square)


def main() -> None:
    cases = []
    for width, height in ((64, 48), (48, 64), (20, 20), (7, 10), (33, 90), (200, 31), (41, 40)):
        out = resized_with_pad(Image.fromarray(picture(width, height)), SIDE)
        cases.append({"width": width, "height": height, "rgb": out.flatten().tolist()})
    with open(sys.argv[1], "w") as file:
        json.dump({"side": SIDE, "cases": cases}, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
