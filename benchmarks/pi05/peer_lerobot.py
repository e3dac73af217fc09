"""The peer: one training step of lerobot's PI05Pytorch, driven as benchmarks/training_step/peer.py says.

    peer_lerobot.py CASE_DIR --dtype fp32|bf16 --threads N

LEROBOT_SRC is the folder of lerobot's unpacked wheel. bf16 is lerobot's own choice of what is in bf16.
"""
import json
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks/training_step"))
from peer import begin, resident_bytes, serve  # noqa: E402

arguments = begin(__doc__)

import torch  # noqa: E402  (the number of threads comes first)
from safetensors.torch import load_file  # noqa: E402

sys.path.insert(0, str(ROOT / "tools/fixtures"))
import make_references as references  # noqa: E402

references.import_pi05(os.environ["LEROBOT_SRC"])

base_bytes = resident_bytes()
config = json.loads((arguments.case / "config.json").read_text())
built = references.build("pi05", "small", 1, os.environ["LEROBOT_SRC"])
model = built.model
weights = load_file(arguments.case / "model.safetensors")
ours = built.ckpt(dict(model.named_parameters()))
with torch.no_grad():
    for name, parameter in ours.items():  # views of the model's own parameters
        parameter.copy_(weights[name])
if arguments.dtype == "bf16":
    model.paligemma_with_expert.to_bfloat16_for_selected_params("bfloat16")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1, betas=(0.9, 0.95), fused=True)
batch = load_file(arguments.case / "batch/inputs.safetensors")
cameras = sum(name.startswith("image.") for name in batch)


def step():
    optimizer.zero_grad(set_to_none=True)
    per_element = model([batch[f"image.{i}"] for i in range(cameras)], [batch[f"image_mask.{i}"] for i in range(cameras)],
                        batch["tokens"], batch["token_mask"], batch["actions"], batch["noise"], batch["time"])
    loss = per_element[..., : config["action_dim"]].mean()
    loss.backward()
    optimizer.step()
    return loss.item()


serve(step, base_bytes)
