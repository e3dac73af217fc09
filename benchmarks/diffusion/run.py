#!/usr/bin/env python3
"""Our diffusion training step beside the diffusers one, on samples of different sizes.

    run.py [--python PEER_PYTHON] [--server build/bin/lf_step_server] [--plugins build/plugins] [--steps 7] [--threads 1]
           [--families flux qwen_image wan] [--dtypes fp32 bf16]

Run and read as benchmarks/training_step/run.py: both sides take steps in turn, medians of CPU seconds are printed, and
losses that differ make the comparison void. PEER_PYTHON has torch 2.11, diffusers and safetensors.
"""
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "training_step"))
from run import benchmark  # noqa: E402

if __name__ == "__main__":
    benchmark(__doc__, "diffusion", "diffusers", HERE / "peer_diffusers.py", "model", "--families", ["flux", "qwen_image", "wan"],
              lambda name, _: [HERE / "case.py", "--family", name])
