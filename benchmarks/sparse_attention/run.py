#!/usr/bin/env python3
"""Sparse attention and grouped experts against dense attention and against transformers, on one machine in one run.

    run.py BUILD_DIR [--lengths 1024,2048,...] [--peer PYTHON] [--peer-up-to N] [--repeats N] [--threads N]

Each figure is a process of its own; dense, sparse and peer take turns within a length, so that they meet the same load.
Times are CPU seconds of all threads (wall times of a shared machine say little), memory what the process grew by.
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

    print("| tokens | dense fwd / both s | sparse fwd / both s | faster fwd / both | dense MB | sparse MB | "
          "transformers both s | MB |")
    print("|---:|---:|---:|---:|---:|---:|---:|---:|")
    for length in map(int, arguments.lengths.split(",")):
        repeats = arguments.repeats if length <= 8192 else 1
        dense = measure([program, "dense", length, repeats], arguments.threads)
        sparse = measure([program, "sparse", length, repeats], arguments.threads)
        peer = None
        if arguments.peer and length <= arguments.peer_up_to:
            peer = measure([arguments.peer, HERE / "peer_transformers.py", "attention", length, 1], arguments.threads)
        print(f"| {length} | {dense['forward']:.3f} / {dense['both']:.3f} | {sparse['forward']:.3f} / {sparse['both']:.3f} "
              f"| {dense['forward'] / sparse['forward']:.2f} / {dense['both'] / sparse['both']:.2f} "
              f"| {dense['peak_mb']:.0f} | {sparse['peak_mb']:.0f} "
              f"| {peer['both']:.2f} | {peer['peak_mb']:.0f} |" if peer else
              f"| {length} | {dense['forward']:.3f} / {dense['both']:.3f} | {sparse['forward']:.3f} / {sparse['both']:.3f} "
              f"| {dense['forward'] / sparse['forward']:.2f} / {dense['both'] / sparse['both']:.2f} "
              f"| {dense['peak_mb']:.0f} | {sparse['peak_mb']:.0f} | | |", flush=True)
    if arguments.rows:
        own = measure([program, "experts", arguments.rows, arguments.repeats], arguments.threads)
        line = f"\n64 experts, {arguments.rows} rows: {own['forward']:.3f} / {own['both']:.3f} s"
        if arguments.peer:
            peer = measure([arguments.peer, HERE / "peer_transformers.py", "experts", arguments.rows, arguments.repeats],
                           arguments.threads)
            line += (f"; transformers' loop {peer['forward']:.3f} / {peer['both']:.3f} s, "
                     f"{peer['both'] / own['both']:.2f} times")
        print(line)


if __name__ == "__main__":
    main()
