#!/usr/bin/env python3
"""The value of every constant of the ABI, held still: constants.py check|update COMPILER INCLUDE FOLDER.

Every enumerator, and every macro that is a number or a text, of the headers in INCLUDE/lf/plugin_api, as the C compiler
sees them. FOLDER holds constants.golden. `check` fails where any differs, and says whether it is new; `update` writes the
file anew, and refuses whatever is not new (docs/abi.md).
"""
import pathlib
import re
import subprocess
import sys
import tempfile

# The version of the whole may change, and what the compiler says of itself differs.
FREE = {"LF_ABI_MAJOR", "LF_ABI_MINOR", "LF_COMPILER_ABI"}


def names(compiler, include, source):
    """(those that are numbers, those that are texts)"""
    def preprocessed(*flags):
        return subprocess.run([compiler, "-std=c11", "-E", "-P", *flags, "-I", include, "-x", "c", "-"], input=source, check=True,
                              capture_output=True, text=True).stdout
    enumerators = [name for body in re.findall(r"\benum\b[^{};]*\{([^}]*)\}", preprocessed())
                   for name in re.findall(r"\b(LF_\w+)\b", re.sub(r"=[^,]*", "", body))]
    macros = [(name, value) for name, value in re.findall(r'^#define (LF_\w+) (-?\d\w*|".*")$', preprocessed("-dM"), re.M)
              if name not in FREE]
    return (enumerators + [name for name, value in macros if not value.startswith('"')],
            [name for name, value in macros if value.startswith('"')])


def constants(compiler, include):
    source = "".join(f"#include <lf/plugin_api/{header.name}>\n" for header in sorted((include / "lf/plugin_api").glob("*.h")))
    numbers, texts = names(compiler, include, source)
    shown = [f'  printf("{name} = %lld\\n", (long long)({name}));\n' for name in numbers]
    shown += [f'  printf("{name} = %s\\n", {name});\n' for name in texts]
    program = f"#include <stdio.h>\n{source}int main(void) {{\n{''.join(sorted(shown))}  return 0;\n}}\n"
    with tempfile.TemporaryDirectory() as folder:
        binary = pathlib.Path(folder) / "constants"
        subprocess.run([compiler, "-std=c11", "-I", include, "-x", "c", "-", "-o", binary], input=program, check=True, text=True)
        return subprocess.run([binary], check=True, capture_output=True, text=True).stdout


def judge(golden, now):
    """(what is wrong, what is new)"""
    old, new = (dict(line.split(" = ", 1) for line in text.splitlines()) for text in (golden, now))
    wrong = [f"{name}: expected {value}, got {new.get(name, 'nothing')}" for name, value in old.items() if new.get(name) != value]
    return wrong, [name for name in new if name not in old]


def main():
    command, compiler, include, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]), pathlib.Path(sys.argv[4])
    golden = folder / "constants.golden"
    now = constants(compiler, include)
    wrong, new = judge(golden.read_text() if golden.exists() else "", now)
    if wrong:
        print("the plugin ABI is broken:\n  " + "\n  ".join(wrong) + "\nA constant keeps its value; add another one (docs/abi.md).")
        return 1
    if command == "update":
        golden.write_text(now)
        print("new: " + ", ".join(new) if new else "nothing new")
        return 0
    if new:
        print(f"the plugin ABI has new constants: {', '.join(new)}\nThat is allowed. Hold them still from here on: "
              f"constants.py update {compiler} {include} {folder}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
