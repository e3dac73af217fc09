#!/usr/bin/env bash
# Proves plugins/cuda on a real GPU: devices, memory, overlap, collectives, parity and a training curve against the CPU.
#
#   tools/hardware/cuda_check.sh [BUILD_DIR] [OUT_DIR]
#
# Needs the NVIDIA driver, a finished build (default build/) and tools/hardware/cuda_setup.sh. Writes OUT_DIR/report.txt
# (default cuda_check/) and exits 1 when any part failed; parts that this machine cannot run are listed as skipped.
set -uo pipefail
cd "$(dirname "$0")/../.."
build=${1:-build}
out=${2:-cuda_check}
mkdir -p "$out"
report=$out/report.txt
: >"$report"
failed=0
say() { printf '%s\n' "$*" | tee -a "$report"; }

# part NAME COMMAND...: runs it, keeps its output, notes its seconds.
part() {
  local name=$1 start=$SECONDS
  shift
  if "$@" >"$out/$name.log" 2>&1; then
    say "ok       $name ($((SECONDS - start)) s)"
  else
    say "FAILED   $name (exit $?): $out/$name.log"
    tail -5 "$out/$name.log" | sed 's/^/         /' | tee -a "$report"
    failed=1
  fi
}
skip() { say "skipped  $1: $2"; }

say "$(date -u +%Y-%m-%dT%H:%M:%SZ) $(git rev-parse --short HEAD 2>/dev/null)"
nvidia-smi --query-gpu=index,name,driver_version,memory.total --format=csv,noheader 2>&1 | tee -a "$report"
gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')
[ "$gpus" -gt 0 ] || { say "no GPU: nothing was checked"; exit 69; }
[ -f .deps/site/torch/lib/libtorch_cuda.so ] || { say "run tools/hardware/cuda_setup.sh first"; exit 66; }

# 1. The plugin's own calls: memory and its statistics, fills, events, an overlap of copies with copies that is measured,
#    out-of-memory and recovery; with two GPUs copies between them, and NCCL between two processes. Then the conformance
#    kit: each promise of the two interfaces, pinned memory, streams, ranges and NCCL's collectives on one rank among them.
part device env LF_CUDA_HOME="$PWD/.deps/site/nvidia" "$build/bin/cuda_gpu_test"
part conformance env LF_CUDA_HOME="$PWD/.deps/site/nvidia" "$build/bin/lfrun" plugins verify --all "$build/plugins/cuda.lfplugin.so"

# 2. LibTorch through it, loaded late: the CPU's losses within a stated tolerance.
job=${LF_CUDA_CHECK_JOB:-configs/quickstart.toml}
rm -rf "$out"/run_*
if [ -x "$build/bin/lfrun" ] && [ -f "$job" ]; then
  train() {  # NAME DEVICE SETTING...
    local name=$1 device=$2
    shift 2
    part "train_$name" env LF_DEVICE="$device" "$build/bin/lfrun" --plugin-dir "$build/plugins" "$job" \
      --set job.output="$out/run_$name" --set job.steps=20 --set precision.compute=fp32 -n 1 "$@"
  }
  train cpu cpu
  train cuda cuda                                        # memory = "auto"
  train cuda_again cuda
  part same_bits python3 - "$out/run_cuda/metrics.jsonl" "$out/run_cuda_again/metrics.jsonl" <<'P'
import json, sys
a, b = ([json.loads(l)["loss"] for l in open(f) if '"loss"' in l] for f in sys.argv[1:])
worst = max(abs(x - y) / abs(x) for x, y in zip(a, b))
print("two runs of one job: " + ("the same bits" if a == b else f"not the same bits, worst relative difference {worst:.2e}"))
sys.exit(len(a) != len(b) or not a or worst > 1e-4)  # fused attention's backward may add in any order
P
  train cuda_host cuda --set optimizer.memory=host
  part curves python3 - "$out/run_cpu/metrics.jsonl" "$out/run_cuda/metrics.jsonl" <<'P'
import json, sys
a, b = ([json.loads(l)["loss"] for l in open(f) if '"loss"' in l] for f in sys.argv[1:])
# fp32 on both; a GPU sums in another order and its matmuls may round inputs to TF32 only where asked to.
worst = max(abs(x - y) / abs(x) for x, y in zip(a, b))
print(f"{len(a)} steps, cpu {a[0]:.6f} -> {a[-1]:.6f}, cuda {b[0]:.6f} -> {b[-1]:.6f}, worst relative difference {worst:.2e}")
sys.exit(len(a) != len(b) or not a or worst > 2e-3)
P
  # AdamW in device memory: "auto" took it, a trial update gave the host's bits, the curve is that of AdamW on the host,
  # and a checkpoint of the one goes on in the other. The update's seconds stand beside each other.
  train resumed cuda --set optimizer.memory=device --set job.steps=10
  train resumed cuda --set optimizer.memory=host
  part adamw_on_the_card python3 - "$out/run_cuda" "$out/run_cuda_host" "$out/run_resumed" <<'P'
import json, statistics, sys
runs = [[json.loads(line) for line in open(f"{run}/metrics.jsonl")] for run in sys.argv[1:]]
record = json.load(open(f"{sys.argv[1]}/env.json"))["optimizer"]
losses = [[row["loss"] for row in run] for run in runs]
# Fused attention's backward may sum in any order on a GPU, so two runs of one job may differ by rounding too (same_bits).
worst = [max(abs(x - y) / abs(x) for x, y in zip(losses[0], other)) for other in losses[1:]]
seconds = [statistics.median(row["optimizer_seconds"] for row in run[1:]) for run in runs[:2]]
print(f"{record['memory']}: {record['reason']}; worst relative difference to the host {worst[0]:.2e}, of the resumed run "
      f"{worst[1]:.2e}; update {seconds[0]:.4f} s on the card, {seconds[1]:.4f} s on the host")
sys.exit(record["memory"] != "device" or "the host's bits" not in record["reason"] or any(len(l) != 20 for l in losses)
         or max(worst) > 1e-4)
P
  # Memory as the plugin counts it, and the share of gradients that reached the host while backward still ran.
  part memory_and_overlap python3 - "$out/run_cuda_host/metrics.jsonl" "$out/run_cuda_host/env.json" <<'P'
import json, statistics, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
device = json.load(open(sys.argv[2]))["device"]
hidden = statistics.median(row["copies_hidden"] for row in rows[1:])
print(f"{device['name']}: peak {rows[-1]['peak_memory_bytes']} bytes, copies hidden {hidden:.0%}, "
      f"exposed {statistics.median(row['reduction_exposed_seconds'] for row in rows[1:]):.4f} s of "
      f"{statistics.median(row['step_seconds'] for row in rows[1:]):.4f} s a step")
sys.exit(device["simulated"] or rows[-1]["peak_memory_bytes"] <= 0 or hidden <= 0)
P
  if [ "$gpus" -ge 2 ]; then
    # Gradients summed by NCCL; and on the host, where "fixed" always sums: two ranks' sums have one order but for leaves'.
    for mode in fast fixed; do
      part "train_two_$mode" env LF_DEVICE=cuda "$build/bin/lfrun" --plugin-dir "$build/plugins" "$job" \
        --set job.output="$out/run_two_$mode" --set job.steps=20 --set precision.compute=fp32 \
        --set balance.policy=none --set reduction.mode=$mode -n 2
    done
    part curves_nccl python3 - "$out"/run_two_fixed "$out"/run_two_fast <<'P'
import json, statistics, sys
runs = [[json.loads(line) for line in open(f"{run}/metrics.jsonl")] for run in sys.argv[1:]]
losses = [[row["loss"] for row in run] for run in runs]
worst = max(abs(x - y) / abs(x) for x, y in zip(*losses))
record = json.load(open(f"{sys.argv[2]}/env.json"))["reduction"]
exposed = [statistics.median(row["reduction_exposed_seconds"] for row in run[1:]) for run in runs]
print(f"{record['reason']}: worst relative difference {worst:.2e}; exposed {exposed[0]:.4f} s on the host, {exposed[1]:.4f} s by NCCL")
sys.exit(record["transport"] != "device" or len(losses[0]) != len(losses[1]) or worst > 1e-4)
P
  else
    skip train_two_processes "one GPU"
  fi
else
  skip train "no $build/bin/lfrun or no $job"
fi

# 3. Reference cases, forward and backward, on the GPU.
cases=${LF_CUDA_CHECK_PARITY:-$build/fixtures/references}
if [ -d "$cases" ]; then
  for directory in "$cases"/*/; do
    part "parity_$(basename "$directory")" env LF_DEVICE=cuda "$build/bin/lfrun" --plugin-dir "$build/plugins" parity "$directory"
  done
else
  skip parity "no folder $cases: the tests' build unpacks it, or name one in LF_CUDA_CHECK_PARITY"
fi

# 4. A trace of a few steps, for the eye: do the copies run beside backward?
if command -v nsys >/dev/null && [ -d "$out/run_cuda" ]; then
  part trace env LF_DEVICE=cuda nsys profile -o "$out/trace" --force-overwrite true -t cuda,nvtx \
    "$build/bin/lfrun" --plugin-dir "$build/plugins" "$job" --set job.output="$out/run_trace" --set job.steps=5 -n 1
  part ranges bash -c "nsys stats --force-export=true -r nvtx_pushpop_sum '$out/trace.nsys-rep' | grep 'optimizer'"
else
  skip trace "no nsys, or nothing was trained"
fi

say "report: $report"
exit $failed
