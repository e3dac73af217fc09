"""Plugins of other versions of the headers: kept binaries, one from the future, one that knows less. All train alike."""
import pathlib
import re
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "end_to_end"))
from tiny_job import Lfrun, metrics, write_job  # noqa: E402

build, kept, torch = (pathlib.Path(argument) for argument in sys.argv[1:4])
del sys.argv[1:4]
core_torch = re.search(r"^__version__ = '(.*)'", (torch / "version.py").read_text(), re.M)[1]
lfrun = Lfrun(build)


class Skew(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.scratch.name)
        cls.job = write_job(cls.root / "job", launch={"processes": 2}, model={"family": "template_c"},
                            data={"max_tokens": 512, "micro_batches": 2}, job={"steps": 4})
        (cls.root / "job/config.json").write_text('{"model_type": "bytes", "width": 16}')
        # The binaries are fixtures: who may write them there is not for this test to say.
        cls.kept = cls.root / "kept"
        cls.kept.mkdir()
        for file in sorted(kept.glob("*.lfplugin.so")):
            (cls.kept / file.name).write_bytes(file.read_bytes())
            (cls.kept / file.name).chmod(0o755)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def train(self, folder, device, balancer):
        run = self.root / f"run_{folder.name}_{device}_{balancer}"
        result = lfrun("--plugin-dir", folder, self.job, "--set", f"job.output={run}", "--set", f"device.name={device}",
                       "--set", f"balance.policy={balancer}")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return [row["loss"] for row in metrics(run)]

    def test_kept_plugins_of_version_0_1_train(self):
        self.assertEqual(len(list(self.kept.iterdir())), 6)
        plain = self.train(self.kept, "cpu", "none")
        self.assertEqual(len(plain), 4)
        for kind in ("template_c", "template_cpp"):
            self.assertEqual(self.train(self.kept, kind, kind), plain)

    def test_a_kept_model_with_libtorch_trains_like_its_twin_in_a_core_of_its_build_and_is_refused_by_any_other(self):
        made_for = re.search(rb'"torch":"([^"]+)"', (self.kept / "model_cpp.lfplugin.so").read_bytes())[1].decode()
        run = self.root / "run_twin"
        result = lfrun("--plugin-dir", self.kept, self.job, "--set", f"job.output={run}", "--set",
                       "model.family=template_cpp", "--set", "device.name=cpu", "--set", "balance.policy=none")
        if made_for != core_torch:
            self.assertEqual(result.returncode, 78, result.stdout + result.stderr)
            self.assertIn(f"expected a plugin for LibTorch {core_torch}, got one for {made_for}", result.stderr)
            return
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        for one, other in zip([row["loss"] for row in metrics(run)], self.train(self.kept, "cpu", "none"), strict=True):
            self.assertLess(abs(one - other), 1e-4 * other)

    def test_plugins_of_the_future_and_of_the_past_train_like_those_of_today(self):
        today = self.train(self.kept, "cpu", "none")
        self.assertEqual(self.train(build / "tests/sdk/newer", "template_cpp", "template_cpp"), today)
        self.assertEqual(self.train(build / "tests/sdk/older", "template_cpp", "none"), today)


if __name__ == "__main__":
    unittest.main()
