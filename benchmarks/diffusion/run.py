#!/usr/bin/env python3
"""Our diffusion training step beside the diffusers one, on samples of different sizes.

    run.py --python PEER_PYTHON [--server build/bin/lf_step_server] [--plugins build/plugins] [--steps 7] [--threads 1]
           [--families flux qwen_image wan] [--dtypes fp32 bf16]

Run and read as benchmarks/training_step/run.py: both sides take steps in turn, medians of CPU seconds are printed, and
losses that differ make the comparison void. PEER_PYTHON has torch 2.11, diffusers and safetensors.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "training_step"))
from run import compare  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True)
    parser.add_argument("--server", type=pathlib.Path, default=ROOT / "build/bin/lf_step_server")
    parser.add_argument("--plugins", type=pathlib.Path, default=ROOT / "build/plugins")
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--families", nargs="+", default=["flux", "qwen_image", "wan"])
    parser.add_argument("--dtypes", nargs="+", default=["fp32", "bf16"])
    arguments = parser.parse_args()
    arguments.family, arguments.peer, arguments.peer_name = "diffusion", HERE / "peer_diffusers.py", "diffusers"
    unit = "CPU s" if arguments.threads == 1 else "s"
    with tempfile.TemporaryDirectory() as folder:
        cases = []
        for family in arguments.families:
            case = pathlib.Path(folder) / family
            made = subprocess.run([arguments.python, str(HERE / "case.py"), str(case), "--family", family], check=True,
                                  capture_output=True, text=True)
            print(made.stdout.strip())
            cases.append(case)
        print(f"\n| model | dtype | lfrun, {unit} a step | diffusers, {unit} a step | times faster | lfrun MB "
              "| diffusers MB | share | loss | their loss |")
        print("|---|---|---|---|---|---|---|---|---|---|")
        for case in cases:
            for dtype in arguments.dtypes:
                compare(case, dtype, arguments)


if __name__ == "__main__":
    main()
