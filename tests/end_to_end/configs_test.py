"""The job files of configs/ at real sizes: `lfrun check` accepts each, as its comment says. Where a file names what tools/setup.sh makes of
the manual, a sample of the same kind stands for it."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from tiny_job import Lfrun

lfrun = Lfrun(sys.argv.pop(1))
ROOT = pathlib.Path(__file__).resolve().parents[2]
PARAMETERS = {"deepseek_v32_sparse": "684B", "deepseek_v32_warmup": "684B", "flux_12b": "11.9B", "internvl3_5_30b_a3b_sft": "30.8B",
              "internvl3_8b_sft": "7.9B", "pi05_3b_sft": "3.6B", "qwen2_5_vl_7b_sft": "8.3B", "qwen_image_20b": "20.4B",
              "qwen_image_edit_20b": "20.4B", "wan2_2_i2v_a14b_high_noise": "14.3B", "wan2_2_i2v_a14b_low_noise": "14.3B",
              "wan2_2_t2v_a14b_high_noise": "14.3B", "wan2_2_t2v_a14b_low_noise": "14.3B", "wan2_2_ti2v_5b": "5.0B"}
ACCEPTED = re.compile(r"as it\W+stands, `lfrun\W+check` accepts it", re.IGNORECASE)


class Configs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.data = pathlib.Path(scratch.name)
        subprocess.run([sys.executable, ROOT / "tools/latents/stand_in.py", cls.data / "latents_stand_in"], check=True)
        texts = {"gimp/train.jsonl": {"messages": [{"role": "user", "content": "What?"}, {"role": "assistant", "content": "This."}]},
                 "gimp_text/documents.jsonl": {"text": "A page of the manual."}}
        for name, sample in texts.items():
            (cls.data / name).parent.mkdir()
            (cls.data / name).write_text(json.dumps(sample) + "\n")

    def test_those_of_real_sizes_are_accepted_and_their_memory_is_estimated(self):
        accepted = [job for job in sorted((ROOT / "configs").glob("*.toml")) if ACCEPTED.search(job.read_text())]
        self.assertEqual([job.stem for job in accepted], sorted(PARAMETERS))
        for job in accepted:
            with self.subTest(job.name):
                path = re.search(r'^path = "\.\./(data|tests)/([^"]*)"', job.read_text(), re.MULTILINE)
                words = ["--set", f"data.path={self.data / path[2]}"] if path[1] == "data" else []
                result = lfrun("check", job, *words, "--set", f"job.output={self.data / 'run'}")
                self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
                self.assertIn(f" {PARAMETERS[job.stem]} parameters", result.stdout)
                self.assertRegex(result.stdout, r"memory +\d")


if __name__ == "__main__":
    unittest.main()
