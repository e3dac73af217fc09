"""The peer's side of a benchmark of the training step, driven over standard input.

    PEER CASE_DIR --dtype fp32|bf16 --threads N

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


def begin(description, **more):
    """The arguments, with `more` names and defaults; call it before torch is imported, whose threads it sets."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", type=pathlib.Path)
    parser.add_argument("--dtype", choices=["fp32", "bf16"], required=True)
    parser.add_argument("--threads", type=int, required=True)
    for name, default in more.items():
        parser.add_argument(f"--{name}", default=default)
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(arguments.threads)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import torch
    torch.set_num_threads(arguments.threads)
    return arguments


def resident_bytes():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def serve(step, base_bytes):
    """step(): one step's loss. base_bytes: resident_bytes() before the model was made."""
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
