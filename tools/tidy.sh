#!/usr/bin/env bash
# clang-tidy over the files of a build: tidy.sh BUILD_DIR [untrusted | FILE...]. `untrusted` takes the readers of files
# that come from elsewhere, which is what every test run checks; without a second argument all files are checked (an hour).
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:?usage: tidy.sh BUILD_DIR [untrusted | FILE...]}
shift
untrusted=(runtime/config/toml_file.cpp runtime/data/line_index.cpp runtime/data/json_text.cpp
           runtime/data/media/png.cpp runtime/data/media/exif.cpp runtime/plugins/elf_file.cpp runtime/plugins/elf_note.cpp
           runtime/plugins/linkage.cpp runtime/plugins/lock.cpp runtime/plugins/parts.cpp runtime/plugins/dependencies.cpp
           runtime/weights/safetensors_header.cpp runtime/checkpoint/manifest.cpp runtime/launch/store_server.cpp)
if [ "${1:-}" = untrusted ]; then
  files=("${untrusted[@]}")
elif [ $# -gt 0 ]; then
  files=("$@")
else
  mapfile -t files < <(git ls-files 'runtime/*.cpp' 'plugins/*.cpp')
fi
# The build's flags are GCC's, some of which clang does not know.
printf '%s\n' "${files[@]}" | xargs -n 1 -P 2 clang-tidy -p "$build" --quiet --extra-arg=-Wno-unknown-warning-option 2>/dev/null
echo "tidy: ${#files[@]} files"
