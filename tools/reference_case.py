#!/usr/bin/env python3
"""Open a model directory with transformers and record a reference case in it, for `lfrun parity`.

    reference_case.py MODEL_DIR [--name transformers] [--seed N]

Needs torch, transformers and safetensors. Writes MODEL_DIR/<name>/{inputs,expected}.safetensors: random text with
pictures of two sizes, and the logits and losses that transformers computes from the very files in MODEL_DIR. Then
`lfrun parity MODEL_DIR` says whether lfrun reads the same model out of them.
"""
import argparse
import pathlib

import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import save_file


def words(count, config, generator):
    vocabulary = min(config.text_config.vocab_size, config.image_token_id) - 16
    return torch.randint(3, vocabulary, (count,), generator=generator).tolist()


def grids(config, generator):
    """Qwen-VL: a row for each of two pictures."""
    vision = config.vision_config
    merge, patch = vision.spatial_merge_size, vision.patch_size
    sizes = [(1, 4 * merge, 6 * merge), (1, 2 * merge, 3 * merge)]
    rows = []
    for _, height, width in sizes:
        ids = words(5, config, generator) + [config.vision_start_token_id]
        ids += [config.image_token_id] * (height * width // merge**2) + [config.vision_end_token_id]
        rows.append(ids + words(23 - height // merge, config, generator))
    pixels = torch.randn(sum(t * h * w for t, h, w in sizes), 3 * vision.temporal_patch_size * patch * patch, generator=generator)
    return rows, {"image_grid_thw": torch.tensor(sizes), "pixel_values": pixels}


def tiles(config, generator):
    """InternVL: a row of two tiles, one of none, one of one; <img> and </img> stand before <IMG_CONTEXT> in its tokenizers."""
    side, patch = config.vision_config.image_size[0], config.vision_config.patch_size[0]
    tokens = int((side // patch * config.downsample_ratio) ** 2)
    rows = []
    for count in (2, 0, 1):
        picture = [config.image_token_id - 2] + [config.image_token_id] * (count * tokens) + [config.image_token_id - 1]
        rows.append(words(6, config, generator) + (picture if count else []) + words(9 + count, config, generator))
    return rows, {"pixel_values": torch.randn(3, 3, side, side, generator=generator)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--name", default="transformers")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    generator = torch.Generator().manual_seed(arguments.seed)
    model = transformers.AutoModelForImageTextToText.from_pretrained(
        arguments.model, dtype=torch.float32, attn_implementation="eager")
    model.train()
    config = model.config
    rows, pictures = (tiles if config.model_type == "internvl" else grids)(config, generator)
    longest = max(map(len, rows))
    input_ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
    labels = input_ids.masked_fill(mask == 0, -100)
    labels[:, :8] = -100
    labels[labels == config.image_token_id] = -100
    inputs = {"input_ids": input_ids, "attention_mask": mask, "labels": labels, **pictures}
    if "image_grid_thw" in pictures:
        inputs["mm_token_type_ids"] = (input_ids == config.image_token_id).long()
    with torch.no_grad():
        logits = model(**inputs, use_cache=False).logits.float()
    shifted = torch.full_like(labels, -100)
    shifted[:, :-1] = labels[:, 1:]
    token_loss = F.cross_entropy(logits.flatten(0, 1), shifted.flatten(), ignore_index=-100, reduction="none").view_as(labels)
    count = int((shifted != -100).sum())
    expected = {"logits": logits * mask[..., None], "token_loss": token_loss, "loss_sum": token_loss.sum(),
                "loss_count": torch.tensor(count), "loss": token_loss.sum() / count}
    folder = arguments.model / arguments.name
    folder.mkdir(exist_ok=True)
    save_file({k: v.contiguous() for k, v in inputs.items()}, folder / "inputs.safetensors")
    save_file({k: v.contiguous() for k, v in expected.items()}, folder / "expected.safetensors")
    print(f"{folder}: loss {expected['loss']:.6f} over {count} tokens")


if __name__ == "__main__":
    main()
