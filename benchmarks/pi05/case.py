"""Make one benchmark case: a PI0.5 of 46M parameters with random weights, and a batch as robot data has them.

    case.py OUT_DIR --lerobot-src FOLDER [--seed N]

OUT_DIR gets config.json, model.safetensors and batch/inputs.safetensors, in the layout of a parity case, which both sides
read. Four samples: three cameras of which the third is absent throughout and the second in one sample; prompts of 24 to 61
tokens in a row of 200, lerobot's tokenizer_max_length; 50 actions of 7 joints in 32 columns.
"""
import argparse
import json
import pathlib
import sys

import torch
from safetensors.torch import save_file

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools/fixtures"))
import make_references as references  # noqa: E402

PROMPTS, ROW, CAMERAS = [37, 24, 61, 48], 200, 3
ABSENT = {(0, 2), (1, 2), (2, 2), (3, 2), (1, 1)}  # sample, camera


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--lerobot-src", required=True)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    built = references.build("pi05", "small", arguments.seed, arguments.lerobot_src)
    config = built.configs["config.json"]
    generator = torch.Generator().manual_seed(arguments.seed)
    n, side = len(PROMPTS), config["image_resolution"][0]
    mask = torch.arange(ROW)[None] < torch.tensor(PROMPTS)[:, None]
    actions = torch.randn(n, config["chunk_size"], config["max_action_dim"], generator=generator)
    actions[..., config["action_dim"]:] = 0
    batch = {"tokens": torch.randint(3, config["sizes"]["V"], (n, ROW), generator=generator) * mask, "token_mask": mask, "actions": actions,
             "noise": torch.randn(actions.shape, generator=generator), "time": torch.rand(n, generator=generator) * 0.999 + 0.001,
             "action_dim": torch.tensor(config["action_dim"])}
    for camera in range(CAMERAS):
        present = torch.tensor([(sample, camera) not in ABSENT for sample in range(n)])
        image = torch.rand(n, 3, side, side, generator=generator) * 2 - 1
        image[~present] = -1
        batch |= {f"image.{camera}": image, f"image_mask.{camera}": present}
    (arguments.out / "batch").mkdir(parents=True)
    (arguments.out / "config.json").write_text(json.dumps(config))
    weights = {name: p.detach() for name, p in built.model.named_parameters()}
    save_file({name: t.contiguous() for name, t in built.ckpt(weights).items()}, arguments.out / "model.safetensors")
    save_file({name: t.contiguous() for name, t in batch.items()}, arguments.out / "batch/inputs.safetensors")
    print(f"pi05: {sum(p.numel() for p in built.model.parameters()) / 1e6:.1f}M parameters, {n} samples, {n * CAMERAS - len(ABSENT)} of "
          f"{n * CAMERAS} pictures are there, {sum(PROMPTS)} of {n * ROW} prompt rows are no padding")


if __name__ == "__main__":
    main()
