#!/usr/bin/env python3
"""Includes go down the layers only: the order below is the architecture. Exit 1 and the offending lines otherwise."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# A module of runtime/ may include itself and what stands before it.
LAYERS = "core config plugins conformance launch data balance load mesh weights comm model reduction optimizer checkpoint metrics train check parity balance_command".split()
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


def main():
    wrong = []
    for path in sorted((ROOT / "runtime").rglob("*.[hc]*")):
        module = path.relative_to(ROOT / "runtime").parts[0]
        if module not in LAYERS:
            continue  # main.cpp and the core's entry may name all modules
        for included in INCLUDE.findall(path.read_text()):
            first = included.split("/")[0]
            if first in LAYERS and LAYERS.index(first) > LAYERS.index(module):
                wrong.append(f"{path.relative_to(ROOT)}: {module} may not include {included}: {first} is a later layer")
    for path in sorted((ROOT / "plugins").rglob("*.[hc]*")):
        for included in INCLUDE.findall(path.read_text()):
            if included.split("/")[0] in LAYERS and not (path.parent / included).exists():
                wrong.append(f"{path.relative_to(ROOT)}: a plugin may not include the runtime's {included}")
    for path in sorted((ROOT / "plugin_api").rglob("*.h*")):
        for included in INCLUDE.findall(path.read_text()):
            if not included.startswith("lf/plugin_"):
                wrong.append(f"{path.relative_to(ROOT)}: the SDK may only include itself, not {included}")
    print("\n".join(wrong) or "includes: in order")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
