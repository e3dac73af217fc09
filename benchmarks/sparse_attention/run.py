#!/usr/bin/env python3
"""Sparse attention and grouped experts against dense attention and against transformers, on one machine in one run.

    run.py BUILD_DIR [--lengths 1024,2048,...] [--peer PYTHON] [--peer-up-to N] [--repeats N] [--threads N]

Each figure is a process of its own; dense, sparse and peer take turns within a length, so that they meet the same load.
Times are CPU seconds of all threads (wall times of a shared machine say little), of forward and of forward + backward;
memory is what the process grew by: held from forward to backward, at the peak, and at the peak without the gradients
that come in and go out.
PYTHON is an interpreter that has torch and transformers 5.24; without it the peer's columns stay empty. Lengths beyond
--peer-up-to are not tried with the peer: it holds several tensors of heads x length x length.
"""
import argparse
import json
import os
import pathlib
import subprocess

HERE = pathlib.Path(__file__).resolve().parent


def measure(command, threads):
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads))
    done = subprocess.run([str(c) for c in command], env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{command}: exit {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--lengths", default="1024,2048,4096,8192,16384,32768")
    parser.add_argument("--peer")
    parser.add_argument("--peer-up-to", type=int, default=4096)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rows", type=int, default=2048, help="rows of the experts' case; 0: leave it out")
    arguments = parser.parse_args()
    program = arguments.build / "bin/lf_sparse_attention_bench"

    print("| tokens | dense s | sparse s | times faster | dense MB | sparse MB | sparse / dense | transformers |")
    print("|---:|---:|---:|---:|---:|---:|---:|---:|")
    for length in filter(None, arguments.lengths.split(",")):
        length = int(length)
        repeats = arguments.repeats if length <= 8192 else 1
        dense, sparse = (measure([program, kind, length, repeats], arguments.threads) for kind in ("dense", "sparse"))
        peer = "not run"
        if arguments.peer and length <= arguments.peer_up_to:
            theirs = measure([arguments.peer, HERE / "peer_transformers.py", "attention", length, 1], arguments.threads)
            peer = f"{theirs['both']:.2f} s, {theirs['peak_mb']:,.0f} MB"
        seconds = " | ".join(f"{side['forward']:.3f} / {side['both']:.3f}" for side in (dense, sparse))
        times = " / ".join(f"{dense[part] / sparse[part]:.2f}" for part in ("forward", "both"))
        memory = " | ".join(" / ".join(f"{side[part + '_mb']:,.0f}" for part in ("held", "peak", "own")) for side in (dense, sparse))
        shares = " / ".join(f"{sparse[part + '_mb'] / dense[part + '_mb']:.0%}" for part in ("held", "peak", "own"))
        print(f"| {length:,} | {seconds} | {times} | {memory} | {shares} | {peer} |", flush=True)
    if arguments.rows:
        print(f"\n| 64 experts, {arguments.rows:,} rows | forward s | forward + backward s | times faster | peak MB |")
        print("|---|---:|---:|---:|---:|")
        sides = {"lfrun": [program, "experts"]}
        if arguments.peer:
            peer = [arguments.peer, HERE / "peer_transformers.py"]
            sides |= {"transformers, one by one": [*peer, "experts"], "transformers, grouped": [*peer, "experts_grouped"]}
        own = None
        for name, command in sides.items():
            side = measure([*command, arguments.rows, arguments.repeats], arguments.threads)
            own = own or side
            times = " / ".join(f"{side[part] / own[part]:.2f}" for part in ("forward", "both"))
            print(f"| {name} | {side['forward']:.3f} | {side['both']:.3f} | {times} | {side['peak_mb']:,.0f} |")


if __name__ == "__main__":
    main()
