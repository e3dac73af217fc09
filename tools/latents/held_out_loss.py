#!/usr/bin/env python3
"""What training did to a diffusion model: its loss on data held out, before and after, on the same draws.

    held_out_loss.py configs/flux_quickstart.toml runs/flux_quickstart/model [more models ...]
                     [--data data/gimp_latents/held_out.jsonl] [--steps 16] [--lfrun build/bin/lfrun]

Runs the job with a learning rate of 0 from its random weights, and then from each directory. Noise and levels are functions of
seed, sample and epoch, so every run sees the same ones; losses are weighted as in training. Standard library only.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def mean_loss(arguments, start):
    with tempfile.TemporaryDirectory() as folder:
        sets = [f"job.output={folder}/run", f"job.steps={arguments.steps}", "job.seed=1", "optimizer.learning_rate=0",
                "schedule.warmup_steps=0", "launch.processes=1", f"data.path={arguments.data}", "checkpoint.export_model=false", "balance.costs=stated"]
        if start:
            sets += [f"model.path={start.absolute()}", 'model.config=""']
        run = subprocess.run([str(arguments.lfrun), str(arguments.job), *(word for item in sets for word in ("--set", item))],
                             capture_output=True, text=True)
        if run.returncode != 0:
            sys.exit(run.stderr)
        rows = [json.loads(line) for line in pathlib.Path(folder, "run/metrics.jsonl").read_text().splitlines()]
    samples = sum(row["samples"] for row in rows)
    return sum(row["loss"] * row["samples"] for row in rows) / samples, samples


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", type=pathlib.Path)
    parser.add_argument("models", type=pathlib.Path, nargs="+")
    parser.add_argument("--data", type=pathlib.Path, default=ROOT / "data/gimp_latents/held_out.jsonl")
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--lfrun", type=pathlib.Path, default=ROOT / "build/bin/lfrun")
    arguments = parser.parse_args()
    before, samples = mean_loss(arguments, None)
    print(f"random weights: {before:.4f}, mean over {samples} draws")
    for model in arguments.models:
        after, _ = mean_loss(arguments, model)
        print(f"{model}: {after:.4f}, {100 * (1 - after / before):.1f}% less")


if __name__ == "__main__":
    main()
