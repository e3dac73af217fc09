#!/usr/bin/env python3
"""What plugins cost. A call across the ABI, in ns; and starting with 20 plugins in the folder.

Times of processes are CPU time (user and system) and the median of 30 runs, so that a busy machine does not count.
"""
import argparse
import json
import pathlib
import resource
import shutil
import statistics
import subprocess
import tempfile
import time

RUNS = 30
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("build", nargs="?", default="build", type=pathlib.Path, metavar="BUILD",
                    help="the build folder, with the targets product and lf_plugin_costs (default: build)")
build = parser.parse_args().build.resolve()
for needed in ("bin/lfrun", "bin/lf_plugin_costs", "plugins/none.lfplugin.so"):
    if not (build / needed).is_file():
        parser.error(f"{build}: expected {needed} in it, got none; build product and lf_plugin_costs there, or name "
                     "another folder")


def timed(*command):
    cpu, wall = [], []
    for _ in range(RUNS):
        before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu.append(1e3 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))
        wall.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(cpu), statistics.median(wall), min(wall)


with tempfile.TemporaryDirectory() as scratch:
    folder = pathlib.Path(scratch) / "plugins"
    folder.mkdir()
    own = sorted((build / "plugins").glob("*.lfplugin.so"))
    for i in range(20):  # those of ours, again and again under other names; the ids repeat, which only a load would mind
        source = own[i % len(own)]
        shutil.copy(source, folder / (source.name if i < len(own) else f"copy{i}_{source.name}"))
    for path in folder.glob("copy*_cpu.lfplugin.so"):
        path.unlink()
        shutil.copy(build / "plugins/none.lfplugin.so", folder / path.name.replace("cpu", "none"))
    size = sum(path.stat().st_size for path in folder.iterdir()) / 1e6

    costs = json.loads(subprocess.run([build / "bin/lf_plugin_costs", folder, "9"], check=True, capture_output=True,
                                      text=True).stdout)
    print(f"a call of the same work, not across the ABI        {costs['direct_ns']:8.2f} ns")
    print(f"a call through a plugin's table                    {costs['table_ns']:8.2f} ns")
    print(f"with LF_HAS, a fresh lf_err and its check          {costs['call_ns']:8.2f} ns")
    print(f"a call that is refused (exception inside the plugin) {costs['refusal_ns']:6.0f} ns")
    print(f"reading {costs['plugins']} plugins ({size:.0f} MB) in process          {costs['list_ms']:8.2f} ms")
    lfrun = build / "bin/lfrun"
    for name, words in {"lfrun --version": ["--version"],
                        "lfrun plugins list, 20 plugins": ["--plugin-dir", folder, "plugins", "list"]}.items():
        cpu, wall, least = timed(lfrun, *words)
        print(f"{name:45} CPU {cpu:6.2f} ms  wall {wall:6.2f} ms (least {least:.2f})")
    subprocess.run([lfrun, "--plugin-dir", folder, "plugins", "lock"], check=True, capture_output=True)
    cpu, wall, least = timed(lfrun, "--plugin-dir", folder, "--locked", "plugins", "list")
    print(f"{'the same with --locked':45} CPU {cpu:6.2f} ms  wall {wall:6.2f} ms (least {least:.2f})")
