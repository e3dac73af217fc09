#!/usr/bin/env python3
"""Train a small variational autoencoder on pictures: the latents of the diffusion quick starts, honestly made.

    small_vae.py data/gimp/train.jsonl data/gimp_vae [--channels 16] [--steps 800] [--limit 512] [--side 128] [--threads 2]

As the large ones are made (arXiv:1312.6114, arXiv:2112.10752), in small: blocks of 4 x 4 pixels, a few residual convolutions, a
mean and a variance of each latent; the mean absolute error of crops, and a little of the divergence from a normal distribution.
Every sixteenth picture, which is held out (pictures.py), is left out here too, and told of at the end. Needs torch.
"""
import argparse
import json
import os
import pathlib
import time

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional

from pictures import BLOCK, COLOURS, is_held_out, pictures, read_picture

WIDTH, CROP, BATCH = 64, 64, 16
DIVERGENCE = 1e-4  # share of the loss: enough to keep latents near 0, little enough for sharp pictures
FILE = "small_vae.safetensors"


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.GroupNorm(8, WIDTH)
        self.first, self.second = nn.Conv2d(WIDTH, WIDTH, 3, padding=1), nn.Conv2d(WIDTH, WIDTH, 3, padding=1)

    def forward(self, x):
        return x + self.second(functional.silu(self.first(functional.silu(self.norm(x)))))


class SmallVae(nn.Module):
    def __init__(self, channels):
        super().__init__()
        values = COLOURS * BLOCK * BLOCK
        self.encoder = nn.Sequential(nn.PixelUnshuffle(BLOCK), nn.Conv2d(values, WIDTH, 3, padding=1), Residual(), Residual(),
                                     nn.Conv2d(WIDTH, 2 * channels, 1))
        self.decoder = nn.Sequential(nn.Conv2d(channels, WIDTH, 3, padding=1), Residual(), Residual(), Residual(),
                                     nn.Conv2d(WIDTH, values, 1), nn.PixelShuffle(BLOCK))

    def loss(self, x, dice):
        mean, log_variance = self.encoder(x).chunk(2, 1)
        log_variance = log_variance.clamp(-20, 10)
        drawn = mean + (log_variance / 2).exp() * torch.randn(mean.shape, generator=dice)
        divergence = (mean ** 2 + log_variance.exp() - 1 - log_variance).mean() / 2
        return (self.decoder(drawn) - x).abs().mean() + DIVERGENCE * divergence


class Opened:
    """encode: [height, width, 3] in [-1, 1] -> the means, [channels, height / 4, width / 4]; decode: back."""

    def __init__(self, folder, model):
        self.folder, self.model = folder, model

    def encode(self, picture):
        with torch.no_grad():
            return self.model.encoder(torch.from_numpy(picture).float().permute(2, 0, 1)[None]).chunk(2, 1)[0][0].double().numpy()

    def decode(self, latents):
        with torch.no_grad():
            return self.model.decoder(torch.from_numpy(latents).float()[None])[0].permute(1, 2, 0).double().numpy()

    def describe(self, folder):
        return {"what": "the means of a small VAE", "vae": os.path.relpath(self.folder, folder)}


def open_vae(folder):
    model = SmallVae(json.loads((pathlib.Path(folder) / "config.json").read_text())["channels"])
    model.load_state_dict(load_file(pathlib.Path(folder) / FILE))
    return Opened(folder, model.eval())


def crops(images, dice):
    batch = []
    for index in torch.randint(len(images), (BATCH,), generator=dice).tolist():
        _, h, w = images[index].shape
        top, left = (int(torch.randint(side - CROP + 1, (1,), generator=dice)) for side in (h, w))
        batch.append(images[index][:, top:top + CROP, left:left + CROP])
    return torch.stack(batch)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--channels", type=int, default=16)
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--limit", type=int, default=512)
    parser.add_argument("--side", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    dice = torch.Generator().manual_seed(1)
    read = [read_picture(path, arguments.side) for _, _, path in pictures(arguments.source, arguments.limit)]
    images = [torch.from_numpy(picture).float().permute(2, 0, 1) for i, picture in enumerate(read)
              if not is_held_out(i) and min(picture.shape[:2]) >= CROP]
    held_out = [picture for i, picture in enumerate(read) if is_held_out(i)]
    model = SmallVae(arguments.channels)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=arguments.steps)
    begun, shown = time.monotonic(), []
    for step in range(1, arguments.steps + 1):
        loss = model.loss(crops(images, dice), dice)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        shown.append(loss.item())
        if step % 100 == 0:
            print(f"step {step}: loss {sum(shown[-100:]) / 100:.4f}, {time.monotonic() - begun:.0f} s", flush=True)
    arguments.out.mkdir(parents=True, exist_ok=True)
    save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()}, arguments.out / FILE)
    (arguments.out / "config.json").write_text(json.dumps({"channels": arguments.channels}) + "\n")
    vae = open_vae(arguments.out)
    errors = [np.mean((np.clip(vae.decode(vae.encode(picture)), -1, 1) - picture) ** 2) for picture in held_out]
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f}M parameters, {len(images)} pictures; {len(held_out)} held out come back "
          f"with a peak signal to noise ratio of {np.mean([10 * np.log10(4 / max(error, 1e-9)) for error in errors]):.1f} dB")


if __name__ == "__main__":
    main()
