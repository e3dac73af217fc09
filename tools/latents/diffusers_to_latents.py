#!/usr/bin/env python3
"""Latents and text embeddings of pictures or videos with texts, by a diffusers pipeline's own VAE and text encoders.

    diffusers_to_latents.py PIPELINE_DIR train.jsonl OUT [--area 1048576] [--frames 81] [--conditions] [--dtype bf16]

PIPELINE_DIR is a local directory of FluxPipeline, QwenImagePipeline, QwenImageEditPlusPipeline, WanPipeline or
WanImageToVideoPipeline (model_index.json decides). train.jsonl is in a format of docs/data.md. Each sample's first picture or
video is what is learnt; with --conditions (Qwen-Image-Edit) the last one is, and those before it are given. OUT gets one
safetensors file a sample, train.jsonl for `data.path`, and empty_text.safetensors for `null_text`.

Sizes keep their proportions within --area pixels, sides in multiples of what VAE and packing need. Latents are normalised as
each pipeline does: Flux (z - shift) * scale, the others (z - mean) / std per channel. Image to video gets `y`: the mask of the
first frame, and the latents of that frame followed by grey. Videos are files that PyAV reads.
"""
import argparse
import itertools
import json
import pathlib

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file

from messages import line, pairs

VIDEO = {".mp4", ".mkv", ".webm", ".avi", ".mov", ".gif"}


def fitted(size, area, unit):
    scale = min(1.0, (area / (size[0] * size[1])) ** 0.5)
    return [max(unit, round(side * scale / unit) * unit) for side in size]


def load(path, area, unit, frames):
    """[3, frames, height, width] in [-1, 1]."""
    if pathlib.Path(path).suffix.lower() in VIDEO:
        import av
        with av.open(str(path)) as video:
            pictures = [frame.to_image() for frame in itertools.islice(video.decode(video=0), frames)]
        if not pictures:
            raise SystemExit(f"{path}: expected a video with frames, got none; leave it out")
        pictures = pictures[:(len(pictures) - 1) // 4 * 4 + 1]  # 4 k + 1, as the VAE's strides want it
    else:
        pictures = [Image.open(path).convert("RGB")]
    size = fitted(pictures[0].size, area, unit)
    pixels = np.stack([np.asarray(picture.resize(size, Image.LANCZOS), np.float32) for picture in pictures])
    return torch.from_numpy(pixels / 127.5 - 1).permute(3, 0, 1, 2)


class Encoder:
    def __init__(self, directory, dtype):
        import diffusers
        self.kind = json.loads((directory / "model_index.json").read_text())["_class_name"]
        self.pipeline = getattr(diffusers, self.kind).from_pretrained(directory, transformer=None, torch_dtype=dtype)
        self.vae = self.pipeline.vae
        self.unit = 2 * self.pipeline.vae_scale_factor if hasattr(self.pipeline, "vae_scale_factor") else 2 * self.pipeline.vae_scale_factor_spatial

    @property
    def flux(self):
        return self.kind.startswith("Flux")

    def latents(self, pixels):
        with torch.no_grad():
            x = pixels.to(self.vae.dtype)[None]
            z = self.vae.encode(x[:, :, 0] if self.flux else x).latent_dist.mode()[0]
        if self.flux:
            return (z - self.vae.config.shift_factor) * self.vae.config.scaling_factor
        each = lambda values: torch.tensor(values, dtype=z.dtype)[:, None, None, None]
        z = (z - each(self.vae.config.latents_mean)) / each(self.vae.config.latents_std)
        return z[:, 0] if z.shape[1] == 1 and self.kind.startswith("Qwen") else z

    def text(self, text, pictures):
        with torch.no_grad():
            if self.flux:
                context, pooled, _ = self.pipeline.encode_prompt(prompt=text, prompt_2=text)
                return {"context": context[0], "pooled": pooled[0]}
            if self.kind.startswith("Qwen"):
                more = {"image": pictures} if pictures else {}
                context, mask = self.pipeline.encode_prompt(prompt=text, **more)
                return {"context": context[0] if mask is None else context[0][mask[0].bool()]}
            context = self.pipeline.encode_prompt(prompt=text, do_classifier_free_guidance=False, max_sequence_length=512)[0][0]
            kept = context.abs().sum(1).nonzero()  # zeros behind the text are left to the model (text_length)
            return {"context": context[:int(kept[-1]) + 1 if len(kept) else 1]}

    def image_to_video(self, pixels, latents):
        first = torch.zeros_like(pixels)
        first[:, :1] = pixels[:, :1]
        mask = torch.zeros(4, *latents.shape[1:], dtype=latents.dtype)
        mask[:, 0] = 1
        return torch.cat([mask, self.latents(first)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pipeline", type=pathlib.Path)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--area", type=int, default=1048576)
    parser.add_argument("--frames", type=int, default=81)
    parser.add_argument("--conditions", action="store_true")
    parser.add_argument("--dtype", choices=["fp32", "bf16"], default="bf16")
    args = parser.parse_args()
    encoder = Encoder(args.pipeline, torch.bfloat16 if args.dtype == "bf16" else torch.float32)
    args.out.mkdir(parents=True, exist_ok=True)
    store = lambda name, tensors: save_file({k: v.contiguous().cpu() for k, v in tensors.items()}, args.out / name)
    store("empty_text.safetensors", encoder.text("", []))
    count = 0
    with open(args.out / "train.jsonl", "w") as out:
        for name, text, media in pairs(args.source):
            *given, wanted = media if args.conditions else media[:1]
            pixels = load(wanted, args.area, encoder.unit, args.frames)
            tensors = {"latents": encoder.latents(pixels)}
            tensors |= encoder.text(text, [Image.open(path).convert("RGB") for path in given])
            for k, path in enumerate(given):
                tensors[f"condition.{k}"] = encoder.latents(load(path, args.area, encoder.unit, 1))
            if encoder.kind == "WanImageToVideoPipeline":
                tensors["y"] = encoder.image_to_video(pixels, tensors["latents"])
            file = f"{count:07}.safetensors"
            store(file, tensors)
            out.write(line(name, text, file, "video" if pixels.shape[1] > 1 else "image"))
            count += 1
    print(f"{count} samples in {args.out / 'train.jsonl'}")


if __name__ == "__main__":
    main()
