#!/usr/bin/env python3
"""What a run on LF_DEVICE=kunlun over the simulated runtime costs beside LF_DEVICE=cpu: the quick start, shortened.

Both sides train the same steps of one job in turn, ROUNDS times; printed are medians over all steps but each run's
first: seconds a step, and CPU seconds a step of all processes of the run. The simulator has no kernels: every operator
runs on the CPU through the fallback, and device memory is memory. So this measures the plugin, the fallback and the
copies, and nothing of a card.

    benchmarks/devices/run.py [--build build] [--job configs/quickstart.toml] [--processes 1] [--steps 6] [--rounds 3]
"""
import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import tempfile


def run(build, job, device, processes, steps, output):
    """Rows of metrics.jsonl, and CPU seconds a step beyond those of a run of one step."""
    def train(n, to):
        words = ["--set", f"job.output={to}", "--set", f"job.steps={n}", "--set", "device.op_fallback=warn",
                 "--set", "schedule.warmup_steps=0", "--set", "checkpoint.every_steps=0",
                 "--set", "checkpoint.export_model=false"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([build / "bin/lfrun", "--plugin-dir", build / "plugins", job, "-n", str(processes), *words],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                       env={**os.environ, "LF_DEVICE": device, "LF_SIM_XPU_COUNT": "8",
                            "LF_KUNLUN_HOME": str((build / "simulators/kunlun/shimmed").resolve())})
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        rows = [json.loads(line) for line in (to / "metrics.jsonl").read_text().splitlines()]
        return rows, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    _, start = train(1, output / "start")
    rows, cpu = train(steps, output / "run")
    return rows, (cpu - start) / (steps - 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--job", type=pathlib.Path, default=pathlib.Path("configs/quickstart.toml"))
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    seconds, cpu, losses, hidden = {"cpu": [], "kunlun": []}, {"cpu": [], "kunlun": []}, {}, []
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(options.rounds):
            for device in seconds:
                output = pathlib.Path(scratch) / f"{device}{number}"
                output.mkdir()
                rows, share = run(options.build, options.job, device, options.processes, options.steps, output)
                seconds[device] += [row["step_seconds"] for row in rows[1:]]
                losses[device] = [row["loss"] for row in rows]
                cpu[device].append(share)
                hidden += [row["copies_hidden"] for row in rows[1:] if "copies_hidden" in row]
    print(f"{options.job}, {options.processes} process(es), {options.steps} steps, {options.rounds} rounds; SIMULATED")
    for device in seconds:
        print(f"{device:8} {statistics.median(seconds[device]):8.3f} s a step ({min(seconds[device]):.3f}-"
              f"{max(seconds[device]):.3f})   {statistics.median(cpu[device]):8.3f} CPU s a step")
    print(f"kunlun/cpu: {statistics.median(seconds['kunlun']) / statistics.median(seconds['cpu']):.2f} times the seconds, "
          f"{statistics.median(cpu['kunlun']) / statistics.median(cpu['cpu']):.2f} times the CPU seconds")
    worst = max(abs(a - b) / abs(b) for a, b in zip(losses["kunlun"], losses["cpu"]))
    print(f"worst relative difference of the losses: {worst:.1e}")
    print(f"gradient bytes that had arrived before backward ended: {statistics.median(hidden):.0%} (median)")


if __name__ == "__main__":
    main()
