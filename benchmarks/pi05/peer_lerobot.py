"""The peer: one training step of lerobot's PI05Pytorch, driven over standard input as benchmarks/training_step's is.

    peer_lerobot.py CASE_DIR --dtype fp32|bf16 --threads N

LEROBOT_SRC is the folder of lerobot's unpacked wheel. bf16 is lerobot's own choice of what is in bf16.
"""
import argparse
import json
import os
import pathlib
import resource
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("case", type=pathlib.Path)
parser.add_argument("--dtype", choices=["fp32", "bf16"], required=True)
parser.add_argument("--threads", type=int, required=True)
arguments = parser.parse_args()
os.environ["OMP_NUM_THREADS"] = str(arguments.threads)

import torch  # noqa: E402  (the number of threads comes first)
from safetensors.torch import load_file  # noqa: E402

torch.set_num_threads(arguments.threads)
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools/fixtures"))
import make_references as references  # noqa: E402

references.import_pi05(os.environ["LEROBOT_SRC"])


def resident_bytes():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


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


for line in sys.stdin:
    command = line.strip()
    if command == "step":
        wall, cpu = time.perf_counter(), time.process_time()
        loss = step()
        answer = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu, "loss": loss}
    elif command == "memory":
        answer = {"peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, "base_bytes": base_bytes}
    else:
        break
    print(json.dumps(answer), flush=True)
