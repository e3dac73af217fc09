#!/usr/bin/env python3
"""What a step of a job is spent on beside the model's maths.

    overhead.py [--job configs/quickstart.toml] [--build build] [--steps 12] [--processes N]

Runs the job for a few steps in a folder of its own, without checkpoints, and reads metrics.jsonl of rank 0. The first two
steps (memory and code are made) are left out. Printed are, as shares of the step:

  wall     medians of the parts of a step, as passed on rank 0's training thread
  CPU      processor time of that thread outside forward, backward and AdamW, and of all other threads of the process
           (loading, collectives, metrics), which works behind the step where there are cores to spare. Steady where the
           machine is noisy; wants launch.threads = 1.

Waiting for a slower rank is not the runtime's work, and is shown apart: it is what balancing is for.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WARM_UP = 2
PARTS = [("forward and backward", "model_seconds"), ("waiting for slower ranks", "peer_wait_seconds"),
         ("reduction, exposed", "reduction_exposed_seconds"), ("optimizer", "optimizer_seconds"),
         ("data, exposed", "data_wait_seconds"), ("rest of the runtime", "rest_seconds")]


def rows_of(arguments, folder):
    command = [str(arguments.build / "bin/lfrun"), str(arguments.job), "--set", f"job.output={folder}",
               "--set", f"job.steps={arguments.steps}", "--set", "schedule.warmup_steps=0",
               "--set", "checkpoint.every_steps=0", "--set", "checkpoint.export_model=false",
               "--set", "launch.threads=1"]
    if arguments.processes:
        command += ["-n", str(arguments.processes)]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(run.stderr)
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()][WARM_UP:]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--job", type=pathlib.Path, default=ROOT / "configs/quickstart.toml")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--processes", type=int)
    arguments = parser.parse_args()
    if arguments.steps <= WARM_UP:
        parser.error(f"--steps: at least {WARM_UP + 1}")
    with tempfile.TemporaryDirectory() as folder:
        rows = rows_of(arguments, pathlib.Path(folder) / "run")
    step = statistics.median(row["step_seconds"] for row in rows)
    print(f"{len(rows)} steps of {step:.3f} s (median; {min(r['step_seconds'] for r in rows):.3f}-"
          f"{max(r['step_seconds'] for r in rows):.3f})\n")
    print("| part | ms, median | of a step |\n|---|---|---|")
    for name, key in PARTS:
        part = statistics.median(row[key] for row in rows)
        print(f"| {name} | {1000 * part:.2f} | {100 * part / step:.2f}% |")
    own = statistics.median(row["rest_seconds"] + row["data_wait_seconds"] for row in rows)
    print(f"\nruntime beside maths and collectives, wall: {100 * own / step:.2f}% of a step")
    total, thread, maths = (sum(sum(row[key] for key in keys) for row in rows) for keys in
                            (["cpu_seconds"], ["thread_cpu_seconds"], ["model_cpu_seconds", "optimizer_cpu_seconds"]))
    print(f"training thread, CPU: {thread / len(rows):.3f} s a step, {100 * (1 - maths / thread):.2f}% of it not in "
          "forward, backward or AdamW")
    print(f"other threads, CPU: {(total - thread) / len(rows):.3f} s a step")


if __name__ == "__main__":
    main()
