#!/usr/bin/env python3
"""Our training step of InternVL beside the transformers one.

    run.py [--python PEER_PYTHON] [--server build/bin/lf_step_server] [--plugins build/plugins] [--steps 7] [--threads 1]
           [--batches short ragged] [--dtypes fp32 bf16]

Run and read as benchmarks/training_step/run.py: both sides take steps in turn, medians of CPU seconds are printed, and
losses that differ make the comparison void. PEER_PYTHON has torch 2.11, transformers 5.24 and safetensors.
"""
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "training_step"))
from run import benchmark  # noqa: E402

if __name__ == "__main__":
    benchmark(__doc__, "internvl", "transformers", HERE.parent / "training_step/peer_transformers.py", "batch", "--batches",
              ["short", "ragged"], lambda name, _: [HERE / "case.py", "--batch", name])
