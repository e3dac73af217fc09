#!/usr/bin/env python3
"""Records what others make of pictures: tests/fixtures/robot/views.json.

    pip install pillow==13.0.0 numpy    # and what tools/fixtures/make_references.py needs for pi05
    python3 record_views.py LEROBOT_SOURCES views.json

Each case: a picture by a formula that the test repeats, and the square that openpi's client makes of it with Pillow ("rgb") and
that lerobot 0.6.1 makes in its model ("lerobot": its own resize_with_pad_torch over numbers from 0 to 1, times 255, to a
hundredth). "augmented": what openpi's training does to a square with given numbers, by PyTorch's interpolate and grid_sample
(formula: models_pytorch/preprocessing_pytorch.py).
"""

import importlib
import json
import math
import pathlib
import sys

import numpy as np
import torch
import torch.nn.functional as F
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


def lerobots(sources: str):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "fixtures"))
    module = importlib.import_module("make_references").import_pi05(sources)

    def resized(rgb: np.ndarray) -> list:
        unit = torch.from_numpy(rgb.copy()).float()[None] / 255
        return (module.resize_with_pad_torch(unit, SIDE, SIDE)[0] * 255).flatten().tolist()

    return resized


# moves, top, left, degrees, brightness, contrast, saturation
AUGMENTATIONS = [(True, 0, 0, 0.0, 1.0, 1.0, 1.0), (True, 1, 0, 0.05, 1.0, 1.0, 1.0), (True, 0, 1, 4.5, 1.0, 1.0, 1.0),
                 (True, 1, 1, -3.0, 0.75, 1.3, 1.4), (False, 1, 1, 4.0, 1.25, 0.7, 0.6), (False, 0, 0, 0.0, 1.0, 1.0, 1.5)]


def augmented(rgb: np.ndarray, moves, top, left, degrees, brightness, contrast, saturation) -> torch.Tensor:
    side = rgb.shape[0]
    image = torch.from_numpy(rgb.copy()).float().permute(2, 0, 1)[None] / 255
    if moves:
        kept = int(side * 0.95)
        image = F.interpolate(image[..., top : top + kept, left : left + kept], size=(side, side), mode="bilinear", align_corners=False)
        if abs(degrees) > 0.1:
            line = torch.linspace(-1, 1, side)
            y, x = torch.meshgrid(line, line, indexing="ij")
            cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
            grid = torch.stack([x * cos - y * sin, x * sin + y * cos], -1)[None]
            image = F.grid_sample(image, grid, mode="bilinear", padding_mode="zeros", align_corners=False)
    image = image * brightness
    mean = image.mean()
    image = (image - mean) * contrast + mean
    grey = image.mean(dim=1, keepdim=True)
    image = grey + (image - grey) * saturation
    return (image.clamp(0, 1)[0].permute(1, 2, 0) * 255).flatten()


def rounded(values) -> list:
    return [round(float(v), 2) for v in values]


def main() -> None:
    lerobot = lerobots(sys.argv[1])
    cases = []
    for width, height in ((64, 48), (48, 64), (20, 20), (7, 10), (33, 90), (200, 31), (41, 40)):
        rgb = picture(width, height)
        out = resized_with_pad(Image.fromarray(rgb), SIDE)
        cases.append({"width": width, "height": height, "rgb": out.flatten().tolist(), "lerobot": rounded(lerobot(rgb))})
    changed = [{"by": list(by), "rgb": rounded(augmented(picture(SIDE, SIDE), *by))} for by in AUGMENTATIONS]
    with open(sys.argv[2], "w") as file:
        json.dump({"side": SIDE, "cases": cases, "augmented": changed}, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
