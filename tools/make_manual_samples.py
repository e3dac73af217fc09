"""Writes runtime/balance/manual_samples.inc: the sizes of the illustrated manual's samples (distribution D6).

    python3 tools/make_manual_samples.py data/gimp .deps/qwen2_tokenizer/tokenizer.json > runtime/balance/manual_samples.inc

Text in tokens of Qwen2's tokenizer; pictures in patches of 14 pixels after Qwen2-VL's resizing to multiples of 28
(transformers, models/qwen2_vl/image_processing_qwen2_vl.py, smart_resize, 56 * 56 to 1280 * 28 * 28 pixels).
Needs the packages tokenizers and Pillow.
"""
import json
import math
import pathlib
import sys

from PIL import Image
from tokenizers import Tokenizer

LEAST, MOST, CELL = 56 * 56, 1280 * 28 * 28, 28


def patches(width, height):
    h, w = max(CELL, round(height / CELL) * CELL), max(CELL, round(width / CELL) * CELL)
    if h * w > MOST:
        shrink = math.sqrt(height * width / MOST)
        h, w = (math.floor(side / shrink / CELL) * CELL for side in (height, width))
    elif h * w < LEAST:
        grow = math.sqrt(LEAST / (height * width))
        h, w = (math.ceil(side * grow / CELL) * CELL for side in (height, width))
    return h * w // 14 // 14


folder, tokenizer = pathlib.Path(sys.argv[1]), Tokenizer.from_file(sys.argv[2])
rows = []
for line in open(folder / "train.jsonl", encoding="utf-8"):
    sample = json.loads(line)
    text = sum(len(tokenizer.encode(turn["value"].replace("<image>", "")).ids) for turn in sample["conversations"])
    pictures = sample.get("image") or []
    pictures = [pictures] if isinstance(pictures, str) else pictures
    rows.append((text, sum(patches(*Image.open(folder / name).size) for name in pictures), len(pictures)))
print(f"// Made by tools/make_manual_samples.py: {len(rows)} samples as text tokens, patches, pictures.")
cells = ["{%d, %d, %d}," % row for row in rows]
line = ""
for cell in cells:
    if len(line) + len(cell) > 118:
        print(line.rstrip())
        line = ""
    line += cell + " "
print(line.rstrip())
