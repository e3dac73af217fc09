#!/usr/bin/env python3
"""Draw pictures with a diffusion model that lfrun saved, opened by diffusers: what a quick start learnt, to be looked at.

    sample.py MODEL_DIR data/gimp_latents/held_out.jsonl picture.png [--count 8] [--steps 30] [--scale 2] [--seed 1]

For the texts of the first samples, in their sizes: Euler steps from noise along the predicted velocity (arXiv:2403.03206), the levels
spaced as Wan's training spaces them, classifier-free guidance against empty_text.safetensors. The picture has the samples' own
pictures above and what was drawn below. Flux, Qwen-Image and Wan (single frames). Needs torch, diffusers, Pillow.
"""
import argparse
import json
import pathlib

import numpy as np
import torch
from PIL import Image
from safetensors.torch import load_file

from pictures_to_latents import pixels_of

SHIFT, EDGE = 3.0, 4


def pack(x):
    """[C, H, W] -> [1, H / 2 * W / 2, 4 C], as FluxPipeline and QwenImagePipeline pack."""
    c, h, w = x.shape
    return x.reshape(c, h // 2, 2, w // 2, 2).permute(1, 3, 0, 2, 4).reshape(1, h // 2 * (w // 2), 4 * c)


def unpack(rows, c, h, w):
    return rows.reshape(h // 2, w // 2, c, 2, 2).permute(2, 0, 3, 1, 4).reshape(c, h, w)


def velocity(model, x, sigma, text):
    c, h, w = x.shape
    context = text["context"][None]
    if model.config._class_name == "WanTransformer3DModel":
        context = torch.nn.functional.pad(context, (0, 0, 0, 512 - context.shape[1]))  # zeros, as in training
        return model(x[None, :, None], torch.tensor([1000 * sigma]), context, return_dict=False)[0][0, :, 0]
    time = torch.tensor([sigma])
    if model.config._class_name == "FluxTransformer2DModel":
        y, z = torch.meshgrid(torch.arange(h // 2), torch.arange(w // 2), indexing="ij")
        ids = torch.stack([torch.zeros_like(y), y, z], -1).reshape(-1, 3).float()
        rows = model(pack(x), context, text["pooled"][None], time, ids, torch.zeros(context.shape[1], 3), return_dict=False)[0]
    else:
        rows = model(pack(x), context, timestep=time, img_shapes=[[(1, h // 2, w // 2)]], return_dict=False)[0]
    return unpack(rows, c, h, w)


def draw(model, shape, text, empty, steps, scale, seed):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    line = torch.linspace(1, 0, steps + 1)
    levels = (SHIFT * line / (1 + (SHIFT - 1) * line)).tolist()
    for now, then in zip(levels, levels[1:]):
        v = velocity(model, x, now, text)
        if scale != 1:
            without = velocity(model, x, now, empty)
            v = without + scale * (v - without)
        x = x + (then - now) * v
    return x


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("samples", type=pathlib.Path)
    parser.add_argument("picture", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=8)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--scale", type=float, default=2, help="of guidance; 1: none")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    import diffusers
    name = json.loads((arguments.model / "config.json").read_text())["_class_name"]
    model = getattr(diffusers, name).from_pretrained(arguments.model).float().eval()
    folder = arguments.samples.parent
    empty = load_file(folder / "empty_text.safetensors")
    columns = []
    for index, line in enumerate(arguments.samples.read_text().splitlines()[:arguments.count]):
        sample = load_file(folder / json.loads(line)["messages"][-1]["content"][0]["path"])
        with torch.no_grad():
            drawn = draw(model, sample["latents"].shape, sample, empty, arguments.steps, arguments.scale, arguments.seed + index)
        columns.append([pixels_of(latents.double().numpy(), folder) for latents in (sample["latents"], drawn)])
    heights = max(own.shape[0] for own, _ in columns)
    width = sum(own.shape[1] + EDGE for own, _ in columns) - EDGE
    sheet = np.full((2 * heights + EDGE, width, 3), 255, np.uint8)
    left = 0
    for pair in columns:
        for row, pixels in enumerate(pair):
            top = row * (heights + EDGE)
            sheet[top:top + pixels.shape[0], left:left + pixels.shape[1]] = pixels
        left += pair[0].shape[1] + EDGE
    Image.fromarray(sheet).save(arguments.picture, optimize=True)
    print(f"{arguments.picture}: {len(columns)} pictures of {name}, {arguments.steps} steps")


if __name__ == "__main__":
    main()
