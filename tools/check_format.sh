#!/usr/bin/env bash
# Every C and C++ file is as clang-format leaves it. With --fix, makes it so.
set -euo pipefail
cd "$(dirname "$0")/.."
mode=(--dry-run -Werror)
[ "${1:-}" = --fix ] && mode=(-i)
git ls-files -z '*.cpp' '*.h' '*.hpp' '*.c' | xargs -0 -n 40 -P 2 clang-format "${mode[@]}"
echo "format: as clang-format leaves it"
