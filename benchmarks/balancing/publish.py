"""Everything that docs/benchmarks/balancing.md shows, measured anew:

    python3 benchmarks/balancing/publish.py BUILD > docs/benchmarks/balancing.md

BUILD: a build folder (LF_BUILD_BENCHMARKS=ON, as the preset dev has it) with its targets lfrun, lfcore, balancing_tables, planner_time made.
Takes about a quarter of an hour of one core; --seeds 2 is a quick look, --no-run leaves out the training runs, which need data/gimp.
"""
import argparse
import array
import json
import pathlib
import statistics
import struct
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def output(*command):
    return subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT).stdout


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]) + "\n"


def planner_times(build):
    """The fastest of five repetitions, in processor time: the machine does other things too."""
    result = json.loads(output(build / "bin/planner_time", "--benchmark_format=json", "--benchmark_repetitions=5",
                               "--benchmark_min_time=0.05"))
    distributions = {"0": "D1", "1": "D4", "2": "D5"}
    rows = {}
    for run in result["benchmarks"]:
        if run["run_type"] != "iteration":
            continue
        name, *sizes = run["run_name"].split("/")
        if name == "plan":
            name, sizes = sizes[0], sizes[1:]
        ranks, per_rank, which = (size.split(":")[-1] for size in sizes)
        key = (int(ranks), int(ranks) * int(per_rank), distributions[which])
        times = rows.setdefault(key, {})
        times[name] = min(times.get(name, run["cpu_time"]), run["cpu_time"])
    names = ["minimax", "whole", "skip_check", "longest_first", "karmarkar_karp", "published_lpt"]
    shown = {"whole": "minimax with checks, certificate, hash", "skip_check": "check whether to plan",
             "published_lpt": "published_lpt (C++)"}
    return table(["ranks", "samples", "distribution"] + [shown.get(name, name) for name in names],
                 [[*key, *(f"{times[name]:.2f}" if name in times else "" for name in names)]
                  for key, times in sorted(rows.items())])


def scaling(build, distribution, plot=None):
    words = ["balance", "--scaling", "8..4096", "--synthetic", distribution, "--micro-batches", "4", "--cap", "1.05",
             "--policy", "none,longest_first,minimax"]
    if plot:
        output(build / "bin/lfrun", *words, "--plot", plot)
    points = json.loads(output(build / "bin/lfrun", *words, "--json"))["scaling"]
    rows = []
    for point in points:
        cells = [point["ranks"]]
        for policy in ("none", "longest_first", "minimax"):
            cells += [f"{point['policies'][policy]['step_seconds']:.3f}", f"{100 * point['policies'][policy]['efficiency']:.1f}%"]
        cells.append(f"{point['policies']['minimax']['tokens_per_second_per_rank']:.0f}")
        assert point["policies"]["minimax"]["efficiency"] >= point["policies"]["none"]["efficiency"], point
        rows.append(cells)
    return table(["ranks", "none: step s", "efficiency", "longest_first: step s", "efficiency", "minimax: step s",
                  "efficiency", "tokens/s/rank"], rows)


def lfrun(build, run, *sets):
    words = [word for item in (f"job.output={run}", "launch.threads=1", "checkpoint.export_model=false",
                               "checkpoint.every_steps=0", "metrics.tensorboard=false", "schedule.warmup_steps=0", *sets) for word in ("--set", item)]
    subprocess.run([str(build / "bin/lfrun"), "configs/quickstart.toml", *words], check=True, stderr=subprocess.DEVNULL, cwd=ROOT)
    return [json.loads(line) for line in open(run / "metrics.jsonl", encoding="utf-8")]


def first_moments(run):
    """AdamW's first moment after one step: a tenth of the clipped gradient."""
    data = (run / "ckpt/step-00000001/optimizer.safetensors").read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    for name, tensor in sorted(json.loads(data[8:8 + size]).items()):
        if name.endswith(".m"):
            begin, end = tensor["data_offsets"]
            yield array.array("f", data[8 + size + begin:8 + size + end])


def equal_maths(build):
    """One step of the manual on 4 ranks x 4 micro-batches, with and without a plan."""
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        runs = {policy: pathlib.Path(scratch) / policy for policy in ("none", "minimax", "longest_first", "karmarkar_karp")}
        for policy, run in runs.items():
            row = lfrun(build, run, "job.steps=1", "launch.processes=4", "data.micro_batches=4", "balance.costs=stated",
                        f"balance.policy={policy}")[0]
            apart = length = 0.0
            for ours, theirs in zip(first_moments(run), first_moments(runs["none"])):
                apart += sum((a - b) ** 2 for a, b in zip(ours, theirs))
                length += sum(a * a for a in theirs)
            rows.append([policy, "yes" if row["balance"]["planned"] else "no", repr(row["loss"]), repr(row["grad_norm"]),
                         f"{(apart / length) ** 0.5:.1e}"])
    return table(["policy", "planned", "loss", "gradient norm", "gradients apart, relative"], rows)


def simulated(build, run, processes, policy):
    """The step that the run's profile was measured on, and what the simulator makes of the same layout and data."""
    result = json.loads(output(build / "bin/lfrun", "balance", "configs/quickstart.toml", "--micro-batches", 2, "--scaling",
                               f"{processes}..{processes}", "--profile", run / "profile.json", "--policy", policy, "--json"))
    return result["measured"]["step_seconds"], result["scaling"][0]["policies"][policy]["step_seconds"]


def real_runs(build, steps):
    """The quick start's job on 2 and 4 processes, policies in turn; the first steps, which warm up, are left out."""
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for processes, policy in [(2, "none"), (2, "minimax"), (4, "none"), (4, "minimax")]:
            run = pathlib.Path(scratch) / f"{processes}_{policy}_{len(rows)}"
            steps_of = lfrun(build, run, f"job.steps={steps}", f"launch.processes={processes}", "data.micro_batches=2",
                             "balance.costs=learned", f"balance.policy={policy}")[8:]
            mean = lambda values: statistics.fmean(values)
            balance = [row["balance"] for row in steps_of]
            rows.append([processes, policy, f"{statistics.median(row['step_seconds'] for row in steps_of):.3f}",
                         f"{mean([row['step_seconds'] for row in steps_of]):.3f}",
                         f"{100 * mean([b['planned'] for b in balance]):.0f}%",
                         f"{100 * mean([b['arrival_imbalance'] for b in balance]):.1f}%",
                         f"{100 * mean([b['predicted_imbalance'] for b in balance]):.1f}%",
                         f"{100 * mean([b['measured_imbalance'] for b in balance]):.1f}%",
                         f"{100 * sum(row['data_wait_seconds'] for row in steps_of) / sum(row['step_seconds'] for row in steps_of):.2f}%",
                         f"{1e3 * mean([b['plan_seconds'] for b in balance]):.2f}"])
            measured, simulation = simulated(build, run, processes, policy)
            rows[-1] += [f"{measured:.3f}", f"{simulation:.3f}", f"{100 * (simulation / measured - 1):+.1f}%"]
    return table(["processes", "policy", "step s, median", "step s, mean", "steps planned", "imbalance on arrival",
                  "as dealt", "measured", "waited for planning and loading", "plan ms, ahead", "step s by its profile",
                  "simulated from it", "off by"], rows)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--seeds", default="10")
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--no-run", action="store_true")
    parser.add_argument("--tables", type=pathlib.Path, help="what balancing_tables has printed before, instead of running it")
    options = parser.parse_args()
    build = options.build.resolve()
    tables = options.tables.read_text(encoding="utf-8") if options.tables else output(
        build / "bin/balancing_tables", "--plugins", build / "plugins", "--plugins",
        build / "benchmark_plugins", "--seeds", options.seeds)
    plot = ROOT / "docs/images/balancing_scaling.svg"
    parts = [(HERE / "preface.md").read_text(encoding="utf-8"), tables,
             "\n### Q3: milliseconds of one thread for a whole step of 4 micro-batches, the fastest of 5 repetitions\n", planner_times(build),
             "\n### Scaling: a model of 8B, D1, 4 micro-batches\n",
             "![Efficiency against ranks](../images/balancing_scaling.svg)\n", scaling(build, "D1", plot),
             "\n### Scaling: the same model on D5, the stress\n", scaling(build, "D5")]
    if not options.no_run:
        parts += ["\n### Q11: one step of the manual, fp32, 4 ranks x 4 micro-batches\n", equal_maths(build)]
        parts += ["\n### A real run: the manual, one thread a process\n", real_runs(build, options.steps)]
    sys.stdout.write("\n".join(parts))


if __name__ == "__main__":
    main()
