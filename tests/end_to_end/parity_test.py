"""`lfrun parity` on every recorded case, by both generations of config.json, and on numbers that are wrong."""
import pathlib
import shutil
import struct
import json
import sys
import tempfile
import unittest

from tiny_job import Lfrun

build = pathlib.Path(sys.argv.pop(1))
lfrun = Lfrun(build)
REFERENCES = build / "fixtures/references"


class Parity(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def test_outputs_losses_gradients_and_trajectories_of_all_cases_agree(self):
        families = sorted(p for p in REFERENCES.iterdir() if (p / "config.json").exists())
        self.assertGreaterEqual(len(families), 8)
        for family in families:
            for config in ("config.json", "config_hub.json"):
                with self.subTest(family=family.name, config=config):
                    result = lfrun("parity", family, "--config", config, "--family", "qwen_vl", "--out", self.folder)
                    self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
                    self.assertIn("AdamW steps", result.stdout)

    def test_the_loss_and_all_gradients_together_agree_in_bf16(self):
        for name in ("qwen2_vl-tiny", "qwen2_5_vl-odd", "qwen3_vl-tiny"):
            with self.subTest(family=name):
                result = lfrun("parity", REFERENCES / name, "--dtype", "bf16", "--family", "qwen_vl", "--out", self.folder)
                self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_one_wrong_number_among_the_expected_ones_is_a_miss_and_exit_1(self):
        wrong = self.folder / "wrong"
        shutil.copytree(REFERENCES / "qwen3_vl-tiny", wrong)
        file = wrong / "packed/expected.safetensors"
        data = bytearray(file.read_bytes())
        size = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8:8 + size])
        name = max((n for n in header if n.startswith("grad.")), key=lambda n: header[n]["data_offsets"][1] - header[n]["data_offsets"][0])
        at = 8 + size + header[name]["data_offsets"][0]
        data[at:at + 4] = struct.pack("<f", struct.unpack("<f", data[at:at + 4])[0] + 1.0)
        file.write_bytes(bytes(data))
        result = lfrun("parity", wrong, "--family", "qwen_vl", "--out", self.folder / "out")
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertIn("MISS", result.stdout)
        self.assertIn(name[5:], result.stdout)


if __name__ == "__main__":
    unittest.main()
