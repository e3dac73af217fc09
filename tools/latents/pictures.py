"""The pictures that latents are made of: which, in which sizes, and which of them are held out."""
import numpy as np
from PIL import Image

from messages import pairs

BLOCK, PACK = 4, 2  # pixels of a block, which is one latent; latents that the model packs into one row
COLOURS, HELD_OUT = 3, 16


def is_held_out(index):
    return index % HELD_OUT == HELD_OUT - 1


def pictures(source, limit):
    """(name, text, path) of each picture, once."""
    seen = set()
    for name, text, media in pairs(source):
        for path in media:
            if path in seen or not path.exists() or len(seen) == limit:
                continue
            seen.add(path)
            yield f"{name}/{path.name}", f"{text} {path.stem.replace('-', ' ')}", path


def read_picture(path, side):
    """The picture, at most side x side pixels in area, its proportions kept, sides in multiples of a packed row's."""
    with Image.open(path) as image:
        image = image.convert("RGBA")
        flat = Image.new("RGBA", image.size, "white")
        flat.alpha_composite(image)
        scale = min(1.0, side / np.sqrt(image.width * image.height))
        unit = BLOCK * PACK
        size = [max(unit, round(s * scale / unit) * unit) for s in image.size]
        return np.asarray(flat.convert("RGB").resize(size, Image.BICUBIC), np.float64) / 127.5 - 1
