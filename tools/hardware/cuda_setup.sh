#!/usr/bin/env bash
# Adds LibTorch's GPU libraries to .deps/site, from the very wheels that tools/setup.sh took the CPU half of: nothing is
# installed on the system but the NVIDIA driver, which must be there. About 2.5 GB to download.
set -euo pipefail
cd "$(dirname "$0")/../.."
site=.deps/site
say() { printf 'cuda_setup: %s\n' "$*"; }
[ -f "$site/torch/lib/libtorch_cpu.so" ] || { say "run tools/setup.sh first"; exit 66; }
if [ -f "$site/torch/lib/libtorch_cuda.so" ]; then say "nothing to do"; exit 0; fi
version=$(sed -n "s/^__version__ = '\(.*\)+.*/\1/p" "$site/torch/version.py")

work=$(mktemp -d .deps/cuda.XXXXXX)
trap 'rm -rf "$work"' EXIT
platforms=()
for n in 17 24 25 26 27 28; do platforms+=(--platform "manylinux_2_${n}_x86_64"); done
say "downloading torch $version and the NVIDIA wheels it names"
/usr/bin/python3 -m pip download -q --only-binary=:all: --python-version 3.11 --implementation cp "${platforms[@]}" \
  --platform manylinux2014_x86_64 --platform any --no-deps "torch==$version" -d "$work"
mapfile -t needs < <(unzip -p "$work"/torch-*.whl '*/METADATA' |
  sed -n 's/^Requires-Dist: \(nvidia-[^;]*\|cuda-toolkit[^;]*\);.*/\1/p' | sort -u)
[ ${#needs[@]} -gt 0 ] || { say "the wheel names no NVIDIA wheels: not a CUDA build?"; exit 65; }
/usr/bin/python3 -m pip download -q --only-binary=:all: --python-version 3.11 --implementation cp "${platforms[@]}" \
  --platform manylinux2014_x86_64 --platform any "${needs[@]}" -d "$work"
say "unpacking into $site"
unzip -q -n "$work"/torch-*.whl 'torch/lib/libtorch_cuda*.so' torch/lib/libc10_cuda.so torch/lib/libcaffe2_nvrtc.so \
  torch/lib/libtorch_nvshmem.so -d "$site"
for wheel in "$work"/nvidia_*.whl; do unzip -q -n "$wheel" 'nvidia/*/lib/*' -d "$site"; done
say "done: $(du -sh "$site" | cut -f1) in $site"
