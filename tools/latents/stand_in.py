#!/usr/bin/env python3
"""Files of the shapes that the large diffusion models train on, so that `lfrun check` accepts their jobs and estimates memory before
anybody has made latents. Their numbers are random: nothing can be learnt from them.

    stand_in.py data/latents_stand_in      # a folder for each kind below, with train.jsonl; needs nothing but Python

Runs write the same bytes.
"""
import json
import pathlib
import random
import struct
import sys

from messages import line

SAMPLES, WORDS = 4, 24
# By folder: channels of the latents, frames (0: pictures), columns of text and pooled text, and what else there is.
KINDS = {
    "flux": {"channels": 16, "text": 4096, "pooled": 768},
    "qwen_image": {"channels": 16, "text": 3584},
    "qwen_image_edit": {"channels": 16, "text": 3584, "given": 1},
    "wan_t2v": {"channels": 16, "frames": 5, "text": 4096},
    "wan_i2v": {"channels": 16, "frames": 5, "text": 4096, "y": 20},
    "wan_ti2v": {"channels": 48, "frames": 5, "text": 4096},
}
SIDES = ((40, 56), (56, 40), (48, 48), (32, 64))  # eighths of a picture's


def numbers(draw, shape):
    """bfloat16 of either sign, between 1/8 and 2."""
    count = 1
    for side in shape:
        count *= side
    data = bytearray(draw.randbytes(2 * count))
    data[1::2] = bytes(0x3E | byte & 0x81 for byte in data[1::2])
    return {"shape": shape, "data": bytes(data)}


def write(path, tensors):
    header, at = {}, 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": "BF16", "shape": tensor["shape"], "data_offsets": [at, at + len(tensor["data"])]}
        at += len(tensor["data"])
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(tensor["data"] for tensor in tensors.values()))


def make(out, kind):
    draw = random.Random(kind["channels"])
    frames = [kind["frames"]] if "frames" in kind else []
    out.mkdir(parents=True, exist_ok=True)
    lines = []
    for number in range(SAMPLES):
        sides = list(SIDES[number % len(SIDES)])
        tensors = {"latents": numbers(draw, [kind["channels"], *frames, *sides]), "context": numbers(draw, [WORDS - number, kind["text"]])}
        if "pooled" in kind:
            tensors["pooled"] = numbers(draw, [kind["pooled"]])
        if "y" in kind:
            tensors["y"] = numbers(draw, [kind["y"], *frames, *sides])
        for given in range(kind.get("given", 0)):
            tensors[f"condition.{given}"] = numbers(draw, [kind["channels"], *sides])
        write(out / f"{number}.safetensors", tensors)
        lines.append(line(str(number), "a stand-in", f"{number}.safetensors", "video" if frames else "image"))
    (out / "train.jsonl").write_text("".join(lines))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for name, kind in KINDS.items():
        make(pathlib.Path(sys.argv[1]) / name, kind)
