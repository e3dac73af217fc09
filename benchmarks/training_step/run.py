#!/usr/bin/env python3
"""Our training step beside the transformers one: same config, weights, batch, dtype and threads, steps taken in turn.

    run.py [--python PEER_PYTHON] [--server build/bin/lf_step_server] [--plugins build/plugins] [--steps 7] [--threads 1]
           [--batches short ragged] [--dtypes fp32 bf16]

PEER_PYTHON is an interpreter with torch 2.11, transformers and safetensors; default: that of benchmarks/peers.sh. For each batch and dtype both sides are
started, warmed up by one step and then timed alternately, so that a machine that slows down slows both. Printed are the
medians of CPU seconds per step with their spread, the ratio of the medians, and peak memory beyond what each process
holds before it makes its model. Both losses are printed too: if they differ, the comparison is void.
"""
import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


class Side:
    def __init__(self, name, command):
        self.name = name
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.name} ended with code {self.process.wait()} at '{command}'")
        return json.loads(line)

    def quit(self):
        self.process.stdin.write("quit\n")
        self.process.stdin.close()
        self.process.wait()


def spread(values):
    return f"{statistics.median(values):.3f} ({min(values):.3f}-{max(values):.3f})"


def compare(case, dtype, arguments):
    common = [str(case), "--dtype", dtype, "--threads", str(arguments.threads)]
    sides = [Side("lfrun", [str(arguments.server), *common, "--plugin-dir", str(arguments.plugins), "--family", arguments.family]),
             Side(arguments.peer_name, [arguments.python, str(arguments.peer), *common])]
    first = [side.ask("step") for side in sides]
    times = [[], []]
    for _ in range(arguments.steps):
        for index, side in enumerate(sides):
            times[index].append(side.ask("step")["cpu_seconds" if arguments.threads == 1 else "seconds"])
    memory = [side.ask("memory") for side in sides]
    for side in sides:
        side.quit()
    megabytes = [(m["peak_bytes"] - m["base_bytes"]) / 1e6 for m in memory]
    ratio = statistics.median(times[1]) / statistics.median(times[0])
    pairs = [theirs / ours for ours, theirs in zip(*times)]
    print(f"| {case.name} | {dtype} | {spread(times[0])} | {spread(times[1])} | {ratio:.2f} ({min(pairs):.2f}-{max(pairs):.2f}) "
          f"| {megabytes[0]:.0f} | {megabytes[1]:.0f} | {megabytes[0] / megabytes[1]:.2f} "
          f"| {first[0]['loss']:.4f} | {first[1]['loss']:.4f} |", flush=True)


def benchmark(description, family, peer_name, peer, column, option, names, make_case, needs=()):
    """Both sides on each of `names`, which `option` chooses from. make_case(name, arguments): the command, after the
    interpreter, that makes a case in the folder appended to it. `needs`: more options that must be given."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=ROOT / ".venv/bin/python")
    for name in needs:
        parser.add_argument(name, required=True)
    parser.add_argument("--server", type=pathlib.Path, default=ROOT / "build/bin/lf_step_server")
    parser.add_argument("--plugins", type=pathlib.Path, default=ROOT / "build/plugins")
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(option, dest="names", nargs="+", default=names, choices=names)
    parser.add_argument("--dtypes", nargs="+", default=["fp32", "bf16"])
    arguments = parser.parse_args()
    arguments.family, arguments.peer, arguments.peer_name = family, peer, peer_name
    for file, remedy in ((arguments.python, "make it with benchmarks/peers.sh, or name an interpreter by --python"),
                         (arguments.server, "build it: cmake --build build --target lf_step_server, or name it by --server")):
        if shutil.which(file) is None:
            parser.error(f"{file}: expected a program, got nothing; {remedy}")
    unit = "CPU s" if arguments.threads == 1 else "s"
    with tempfile.TemporaryDirectory() as folder:
        cases = []
        for name in arguments.names:
            case = pathlib.Path(folder) / name
            made = subprocess.run([arguments.python, *map(str, make_case(name, arguments)), str(case)], check=True,
                                  capture_output=True, text=True)
            print(made.stdout.strip())
            cases.append(case)
        print(f"\n| {column} | dtype | lfrun, {unit} a step | {peer_name}, {unit} a step | times faster | lfrun MB "
              f"| {peer_name} MB | share | loss | their loss |")
        print("|---|---|---|---|---|---|---|---|---|---|")
        for case in cases:
            for dtype in arguments.dtypes:
                compare(case, dtype, arguments)


if __name__ == "__main__":
    benchmark(__doc__, "qwen_vl", "transformers", HERE / "peer_transformers.py", "batch", "--batches",
              ["short", "ragged"], lambda name, _: [HERE / "case.py", "--batch", name])
