#!/usr/bin/env python3
"""How long commands take that train nothing: run.py [--build BUILD] [--peer PYTHON] [--runs N].

Wall times, in rounds of one run each, so that what disturbs the machine disturbs all alike. Below `check` stands what no
command of ours can go under, LibTorch's own opening; with --peer what a Python trainer does before its first own line.
"""
import argparse
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

arguments = argparse.ArgumentParser(description=__doc__)
arguments.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
arguments.add_argument("--peer", help="a Python that has torch and transformers (benchmarks/peers.sh makes one)")
arguments.add_argument("--runs", type=int, default=20)
chosen = arguments.parse_args()

root = pathlib.Path(__file__).resolve().parents[2]
lfrun = chosen.build.resolve() / "bin/lfrun"
job = root / "configs/quickstart.toml"
torch = root / ".deps/site/torch/lib/libtorch_cpu.so"

with tempfile.TemporaryDirectory() as scratch:
    # A new output folder: hashing the checkpoints of an old run is not starting up.
    check = [lfrun, "--plugin-dir", chosen.build / "plugins", "check", job, "--set", f"job.output={scratch}/run"]
    commands = {"lfrun --help": [lfrun, "--help"], "lfrun --print-config": [lfrun, "--print-config", job],
                "lfrun check": check,
                "opening LibTorch": [sys.executable, "-c", f"import ctypes, os; ctypes.CDLL({str(torch)!r}, 1); os._exit(0)"],
                "a Python that ends at once": [sys.executable, "-c", "import ctypes, os; os._exit(0)"]}
    if chosen.peer:
        commands["import torch"] = [chosen.peer, "-c", "import torch, os; os._exit(0)"]
        commands["import transformers' model and trainer"] = [
            chosen.peer, "-c", "from transformers import AutoModelForImageTextToText, Trainer; import os; os._exit(0)"]
    times = {name: [] for name in commands}
    for round_ in range(chosen.runs + 1):
        for name, command in commands.items():
            begin = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            if round_ > 0:  # the first one reads files from the disk
                times[name].append(1e3 * (time.perf_counter() - begin))
    for name, measured in times.items():
        quarter = statistics.quantiles(measured, n=4)
        print(f"{name:40} {quarter[1]:7.1f} ms  (quartiles {quarter[0]:.1f} to {quarter[2]:.1f}, least {min(measured):.1f})")
    if chosen.peer:
        ratio = statistics.median(times["import transformers' model and trainer"]) / statistics.median(times["lfrun check"])
        print(f"the peer's imports take {ratio:.1f} times as long as the whole of lfrun check")
