"""The commands of docs/writing_a_plugin.md, run as a newcomer would, in an empty folder beside a built lfrun."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

build = pathlib.Path(sys.argv.pop(1)).resolve()
source = pathlib.Path(__file__).resolve().parents[2]


class Guide(unittest.TestCase):
    def test_every_command_works_and_the_model_learns(self):
        blocks = re.findall(r"^```sh\n(.*?)^```$", (source / "docs/writing_a_plugin.md").read_text(), re.M | re.S)
        self.assertGreaterEqual(len(blocks), 5)
        with tempfile.TemporaryDirectory() as scratch:
            (pathlib.Path(scratch) / "build").symlink_to(build)
            result = subprocess.run(["bash", "-euc", "".join(blocks)], cwd=scratch, env=dict(os.environ, HOME=scratch),
                                    capture_output=True, text=True, timeout=500)
            self.assertEqual(result.returncode, 0, result.stdout[-4000:] + result.stderr[-4000:])
            for said in ("100% tests passed", "acceptable; `lfrun plugins verify` tries it", "conforms: ",
                         "5 plugins locked"):
                self.assertIn(said, result.stdout)
            rows = [json.loads(line) for line in
                    (pathlib.Path(scratch) / "runs/first/metrics.jsonl").read_text().splitlines()]
            self.assertEqual(len(rows), 20)
            self.assertLess(rows[-1]["loss"], 0.6 * rows[0]["loss"])


if __name__ == "__main__":
    unittest.main()
