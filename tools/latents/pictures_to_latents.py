#!/usr/bin/env python3
"""Latents of pictures by a fixed transform or a small VAE, and hashed text embeddings, for the diffusion quick starts.

    pictures_to_latents.py data/gimp/train.jsonl data/gimp_latents [--vae data/gimp_vae] [--limit 512] [--side 128]
                           [--text-columns 64] [--pooled-columns 64] [--channels 16] [--image-to-video]
    pictures_to_latents.py --back data/gimp_latents/0000.safetensors picture.png

What is made is described in README.md: train.jsonl, and every sixteenth picture in held_out.jsonl. Runs with the same
arguments write the same bytes. --vae is a directory that small_vae.py made, and needs torch.
"""
import argparse
import hashlib
import json
import pathlib
import struct

import numpy as np
from PIL import Image

from messages import line
from pictures import BLOCK, COLOURS, is_held_out, pictures, read_picture

WORDS = 32


def cosines():
    k, n = np.arange(BLOCK)[:, None], np.arange(BLOCK)[None]
    matrix = np.cos(np.pi * (2 * n + 1) * k / (2 * BLOCK)) * np.sqrt(2 / BLOCK)
    matrix[0] /= np.sqrt(2)
    return matrix


def kept(channels):
    """Which coefficients, by colour, row and column of a block: all in that order, or the lowest frequencies."""
    order = [(c, k, l) for c in range(COLOURS) for k in range(BLOCK) for l in range(BLOCK)]
    if channels < len(order):
        order = sorted(order, key=lambda at: (at[1] + at[2], max(at[1:]), at))[:channels]
    return tuple(np.array(order).T)


def latents_of(picture, channels):
    """[height, width, 3] in [-1, 1], sides in multiples of a block -> [channels, height / 4, width / 4]."""
    h, w, _ = picture.shape
    blocks = picture.reshape(h // BLOCK, BLOCK, w // BLOCK, BLOCK, COLOURS)
    return np.einsum("ky,lx,hywxc->cklhw", cosines(), cosines(), blocks)[kept(channels)]


def picture_of(latents):
    channels, h, w = latents.shape
    blocks = np.zeros((COLOURS, BLOCK, BLOCK, h, w))
    blocks[kept(channels)] = latents
    return np.einsum("ky,lx,cklhw->hywxc", cosines(), cosines(), blocks).reshape(h * BLOCK, w * BLOCK, 3)


def text_rows(text, columns):
    """[words, columns]: each word the sum of its letter triples' vectors, of length sqrt(columns)."""
    rows = []
    for word in text.lower().split()[:WORDS] or [""]:
        total = np.zeros(columns)
        for i in range(len(word) + 1):
            digest = hashlib.sha256(f"^{word}$"[i:i + 3].encode()).digest()
            total += np.random.Generator(np.random.PCG64(int.from_bytes(digest[:8], "little"))).standard_normal(columns)
        rows.append(total * np.sqrt(columns) / max(np.linalg.norm(total), 1e-9))
    return np.stack(rows)


def write(path, tensors, metadata=None):
    header, at = {"__metadata__": metadata or {}}, 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [at, at + tensor.size * 4]}
        at += tensor.size * 4
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text +
                                   b"".join(np.ascontiguousarray(t, "<f4").tobytes() for t in tensors.values()))


def read_latents(path):
    data = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    entry = json.loads(data[8:8 + size])["latents"]
    begin, end = entry["data_offsets"]
    return np.frombuffer(data[8 + size + begin:8 + size + end], "<f4").reshape(entry["shape"]).astype(np.float64)


class Cosines:
    """The fixed transform. Runs backwards too."""
    what = "orthonormal 4 x 4 cosine blocks of RGB in [-1, 1]"

    def __init__(self, channels):
        self.channels = channels

    def encode(self, picture):
        return latents_of(picture, self.channels)

    def decode(self, latents):
        return picture_of(latents)

    def describe(self, folder):
        return {"what": self.what}


def transform_of(folder):
    """What made the latents of a folder, to go back: (transform, mean, deviation)."""
    made = json.loads((folder / "transform.json").read_text())
    mean, deviation = (np.array(made[name])[:, None, None] for name in ("mean", "deviation"))
    if "vae" not in made:
        return Cosines(len(mean)), mean, deviation
    from small_vae import open_vae
    return open_vae(folder / made["vae"]), mean, deviation


def make(args):
    args.out.mkdir(parents=True, exist_ok=True)
    if args.vae:
        from small_vae import open_vae
    transform = open_vae(args.vae) if args.vae else Cosines(args.channels)
    samples = [(name, text, transform.encode(read_picture(path, args.side))) for name, text, path in pictures(args.source, args.limit)]
    train = [latents for i, (_, _, latents) in enumerate(samples) if not is_held_out(i)]
    flat = np.concatenate([latents.reshape(latents.shape[0], -1) for latents in train], 1)
    mean, deviation = flat.mean(1), np.maximum(flat.std(1), 1e-3)
    (args.out / "transform.json").write_text(json.dumps({**transform.describe(args.out), "mean": mean.tolist(),
                                                         "deviation": deviation.tolist()}, indent=1) + "\n")
    with open(args.out / "train.jsonl", "w") as out, open(args.out / "held_out.jsonl", "w") as held_out:
        for i, (name, text, latents) in enumerate(samples):
            latents = (latents - mean[:, None, None]) / deviation[:, None, None]
            tensors = {"latents": latents, "context": text_rows(text, args.text_columns),
                       "pooled": text_rows(text, args.pooled_columns).mean(0)}
            if args.image_to_video:  # a video of one frame, which is given: the mask's four channels, then the picture
                tensors["y"] = np.concatenate([np.ones((4, *latents.shape[1:])), latents])
            write(args.out / f"{i:04}.safetensors", tensors)
            (held_out if is_held_out(i) else out).write(line(name, text, f"{i:04}.safetensors"))
    empty = {"context": text_rows("", args.text_columns), "pooled": text_rows("", args.pooled_columns).mean(0)}
    write(args.out / "empty_text.safetensors", empty)
    print(f"{len(train)} samples in {args.out / 'train.jsonl'}, {len(samples) - len(train)} in held_out.jsonl")


def pixels_of(latents, folder):
    """[channels, h, w] as a model sees them -> [height, width, 3] of bytes."""
    transform, mean, deviation = transform_of(pathlib.Path(folder))
    return np.clip(np.rint((transform.decode(latents * deviation + mean) + 1) * 127.5), 0, 255).astype(np.uint8)


def back(file, picture):
    Image.fromarray(pixels_of(read_latents(file), pathlib.Path(file).parent)).save(picture)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--back", action="store_true", help="source is a file of latents, out the picture to write")
    parser.add_argument("--limit", type=int, default=512)
    parser.add_argument("--side", type=int, default=128)
    parser.add_argument("--text-columns", type=int, default=64)
    parser.add_argument("--pooled-columns", type=int, default=64)
    parser.add_argument("--channels", type=int, default=16, choices=range(1, 49), metavar="N",
                        help="without a VAE: the lowest N frequencies, 1 to 48, which is all of them")
    parser.add_argument("--vae", type=pathlib.Path, help="a directory of small_vae.py, instead of the fixed transform")
    parser.add_argument("--image-to-video", action="store_true", help="also y, as Wan's image to video wants it")
    arguments = parser.parse_args()
    if arguments.back:
        back(arguments.source, arguments.out)
    else:
        make(arguments)
