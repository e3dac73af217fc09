"""What lf_add_plugin checks after the link: check_plugin_test.py BUILD CMAKE READELF. A file that a core would refuse fails the build."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

build, cmake, readelf = (pathlib.Path(sys.argv.pop(1)) for _ in range(3))
CHECK = pathlib.Path(__file__).resolve().parents[2] / "plugin_api/cmake/LfCheckPlugin.cmake"


class CheckPlugin(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.file = pathlib.Path(scratch.name) / "some.lfplugin.so"

    def check(self, was="", now=""):
        """Of the good plugin, with a text of its manifest replaced by one of the same length."""
        self.assertEqual(len(was), len(now))
        data = (build / "plugins/none.lfplugin.so").read_bytes()
        self.assertIn(was.encode(), data)
        self.file.write_bytes(data.replace(was.encode(), now.encode()))
        result = subprocess.run([cmake, f"-DFILE={self.file}", f"-DREADELF={readelf}", "-P", CHECK], capture_output=True,
                                text=True)
        return result.returncode == 0, " ".join(result.stderr.split())

    def test_a_good_plugin_passes_and_stays(self):
        self.assertEqual(self.check(), (True, ""))
        self.assertTrue(self.file.exists())

    def test_a_manifest_that_a_core_would_refuse_fails_the_build_and_the_file_is_gone(self):
        for was, now, expected in (
                ('"abi":"0.1"', '"abi":"0.7"', 'expected "abi" 0.1 in the manifest, as these headers are, got "0.7"'),
                ('"kind":"balancer"', '"kind":"balanced"', 'expected "kind" device, model or balancer'),
                ('"kind":"balancer"', '"kind":"device"  ', "expected a device plugin to offer lf.device/1"),
                ('"id":"none"', '"id":"None"', 'expected "id" of 2 to 64 characters a-z 0-9 . _ -'),
                ('["lf.balancer/1"]', '["lf.balancer/2"]', "expected a balancer plugin to offer lf.balancer/1"),
                ('["lf.balancer/1"]', ' "lf.balancer/1" ', 'expected a list of texts as "interfaces"'),
                ('"torch":"none"', '"torch":""    ', 'expected text as "torch" in the manifest'),
                ('"torch":"none"', '"tooth":"none"', "expected a manifest with abi, kind, id, version, interfaces")):
            with self.subTest(now):
                good, said = self.check(was, now)
                self.assertFalse(good)
                self.assertIn(expected, said)
                self.assertFalse(self.file.exists())


if __name__ == "__main__":
    unittest.main()
