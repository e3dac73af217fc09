#!/usr/bin/env python3
"""Our PI0.5 training step beside lerobot's, on samples with absent cameras and padded prompts.

    run.py [--python PEER_PYTHON] --lerobot-src FOLDER [--server build/bin/lf_step_server] [--plugins build/plugins]
           [--steps 7] [--threads 1] [--dtypes fp32 bf16]

Run and read as benchmarks/training_step/run.py: both sides take steps in turn, medians of CPU seconds are printed, and
losses that differ make the comparison void. PEER_PYTHON has torch 2.11, transformers, safetensors and draccus 0.11.6; FOLDER is
lerobot 0.6.1's unpacked wheel (tools/fixtures/README.md).
"""
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "training_step"))
from run import benchmark  # noqa: E402


def make_case(name, arguments):
    os.environ["LEROBOT_SRC"] = arguments.lerobot_src  # for the peer
    return [HERE / "case.py", "--lerobot-src", arguments.lerobot_src]


if __name__ == "__main__":
    benchmark(__doc__, "pi05", "lerobot", HERE / "peer_lerobot.py", "model", "--cases", ["pi05"], make_case, ["--lerobot-src"])
