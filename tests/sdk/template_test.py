"""A plugin made from the template is listed, probed, and trained with."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "end_to_end"))
from tiny_job import Lfrun, metrics, write_job  # noqa: E402

build = pathlib.Path(sys.argv.pop(1))
lfrun = Lfrun(build)
plugins = build / "tests/sdk/plugins"


class Template(unittest.TestCase):
    def test_it_exports_exactly_one_symbol(self):
        listed = subprocess.run(["nm", "-D", "--defined-only", str(plugins / "template_balancer.lfplugin.so")],
                                capture_output=True, text=True, check=True).stdout.split()
        self.assertEqual([word for word in listed if word.startswith("lf_")], ["lf_plugin_entry"])
        self.assertEqual(len(listed), 3)

    def test_it_is_listed_and_probed(self):
        listing = lfrun("--plugin-dir", plugins, "plugins", "list")
        self.assertEqual(listing.returncode, 0, listing.stderr)
        self.assertRegex(listing.stdout, r"balancer\s+template\s+1\s+0\.1\s+none")
        probed = lfrun("plugins", "verify", plugins / "template_balancer.lfplugin.so")
        self.assertEqual(probed.returncode, 0, probed.stdout + probed.stderr)

    def test_a_run_balanced_by_it_equals_one_that_is_not_balanced(self):
        with tempfile.TemporaryDirectory() as scratch:
            job = write_job(pathlib.Path(scratch) / "job", launch={"processes": 2}, data={"micro_batches": 2})
            curves = []
            for policy in ("none", "template"):
                run = pathlib.Path(scratch) / policy
                result = lfrun("--plugin-dir", plugins, job, "--set", f"balance.policy={policy}", "--set", f"job.output={run}")
                self.assertEqual(result.returncode, 0, result.stderr)
                curves.append([row["loss"] for row in metrics(run)])
            self.assertEqual(curves[0], curves[1])


if __name__ == "__main__":
    unittest.main()
