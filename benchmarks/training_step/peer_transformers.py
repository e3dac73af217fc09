"""The peer: one training step of the transformers class, driven over standard input.

    peer_transformers.py CASE_DIR --dtype fp32|bf16 --threads N [--attention sdpa]

Each line "step" runs forward, backward and fused AdamW on CASE_DIR/batch and answers one JSON line
{"seconds", "cpu_seconds", "loss"}; "memory" answers {"peak_bytes", "base_bytes"} (peak resident memory, and what was
resident before the model was made); "quit" ends.
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
parser.add_argument("--attention", default="sdpa")
arguments = parser.parse_args()
os.environ["OMP_NUM_THREADS"] = str(arguments.threads)
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch  # noqa: E402  (the number of threads comes first)
import transformers  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

torch.set_num_threads(arguments.threads)


def resident_bytes():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


base_bytes = resident_bytes()
model = transformers.Qwen2_5_VLForConditionalGeneration.from_pretrained(
    arguments.case, dtype=torch.bfloat16 if arguments.dtype == "bf16" else torch.float32,
    attn_implementation=arguments.attention)
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1, betas=(0.9, 0.95), fused=True)
inputs = load_file(arguments.case / "batch/inputs.safetensors")
inputs.pop("mm_token_type_ids")
if "pixel_values" in inputs:
    inputs["pixel_values"] = inputs["pixel_values"].to(model.dtype)

for line in sys.stdin:
    command = line.strip()
    if command == "step":
        wall, cpu = time.perf_counter(), time.process_time()
        optimizer.zero_grad(set_to_none=True)
        loss = model(**inputs, use_cache=False).loss
        loss.backward()
        optimizer.step()
        answer = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu, "loss": loss.item()}
    elif command == "memory":
        answer = {"peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, "base_bytes": base_bytes}
    else:
        break
    print(json.dumps(answer), flush=True)
