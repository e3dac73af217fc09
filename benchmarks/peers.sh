#!/usr/bin/env bash
# peers.sh: a Python environment in .venv with what the benchmarks compare with (peers.txt). A second call does nothing.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
environment=$here/../.venv
stamp=$environment/peers.txt
if cmp -s "$here/peers.txt" "$stamp"; then exit 0; fi
python3 -m venv "$environment"
"$environment/bin/pip" install --quiet --requirement "$here/peers.txt"
cp "$here/peers.txt" "$stamp"
