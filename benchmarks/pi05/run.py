#!/usr/bin/env python3
"""Our PI0.5 training step beside lerobot's, on samples with absent cameras and padded prompts.

    run.py --python PEER_PYTHON --lerobot-src FOLDER [--server build/bin/lf_step_server] [--plugins build/plugins]
           [--steps 7] [--threads 1] [--dtypes fp32 bf16]

Run and read as benchmarks/training_step/run.py: both sides take steps in turn, medians of CPU seconds are printed, and
losses that differ make the comparison void. PEER_PYTHON has torch 2.11, transformers, safetensors and draccus 0.11.6; FOLDER is
lerobot 0.6.1's unpacked wheel (tools/fixtures/README.md).
"""
import argparse
import os
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
    parser.add_argument("--lerobot-src", required=True)
    parser.add_argument("--server", type=pathlib.Path, default=ROOT / "build/bin/lf_step_server")
    parser.add_argument("--plugins", type=pathlib.Path, default=ROOT / "build/plugins")
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--dtypes", nargs="+", default=["fp32", "bf16"])
    arguments = parser.parse_args()
    os.environ["LEROBOT_SRC"] = arguments.lerobot_src
    arguments.family, arguments.peer, arguments.peer_name = "pi05", HERE / "peer_lerobot.py", "lerobot"
    unit = "CPU s" if arguments.threads == 1 else "s"
    with tempfile.TemporaryDirectory() as folder:
        case = pathlib.Path(folder) / "pi05"
        made = subprocess.run([arguments.python, str(HERE / "case.py"), str(case), "--lerobot-src", arguments.lerobot_src], check=True,
                              capture_output=True, text=True)
        print(made.stdout.strip())
        print(f"\n| model | dtype | lfrun, {unit} a step | lerobot, {unit} a step | times faster | lfrun MB | lerobot MB | share "
              "| loss | their loss |")
        print("|---|---|---|---|---|---|---|---|---|---|")
        for dtype in arguments.dtypes:
            compare(case, dtype, arguments)


if __name__ == "__main__":
    main()
