"""Every test that a document names exists: `Suite.name` of C++, `file.name` of tests/end_to_end."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAMED = re.compile(r"`(\w+)\.(\w+)`")


def known():
    for file in (ROOT / "tests").rglob("*.cpp"):
        for suite, name in re.findall(r"^TEST(?:_F|_P)?\((\w+), (\w+)\)", file.read_text(encoding="utf-8"), re.MULTILINE):
            yield suite, name
    for file in (ROOT / "tests/end_to_end").glob("*_test.py"):
        for name in re.findall(r"^    def (test_\w+)\(", file.read_text(encoding="utf-8"), re.MULTILINE):
            yield file.stem, name


def main():
    tests, missing, seen = set(known()), [], 0
    for document in sys.argv[1:]:
        for number, line in enumerate((ROOT / document).read_text(encoding="utf-8").splitlines(), 1):
            for test in NAMED.findall(line):
                seen += 1
                if test not in tests:
                    missing.append(f"{document}:{number}: no test is called {test[0]}.{test[1]}; name one that is there")
    print("\n".join(missing) or f"{seen} tests named, all there")
    return 1 if missing or not seen else 0


if __name__ == "__main__":
    sys.exit(main())
