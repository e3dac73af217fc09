"""The installed product runs from wherever it lies, without the build folder's help."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from tiny_job import metrics, write_job

build = pathlib.Path(sys.argv.pop(1))
MEDIA = pathlib.Path(__file__).resolve().parent.parent / "fixtures/media"


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        first = cls.folder / "first"
        subprocess.run(["cmake", "--install", build, "--component", "runtime", "--prefix", first], check=True,
                       capture_output=True, umask=0o002)
        cls.tree = cls.folder / "moved" / "lfrun"
        cls.tree.parent.mkdir()
        first.rename(cls.tree)
        cls.elsewhere = cls.folder / "elsewhere"
        cls.elsewhere.mkdir()

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def run_installed(self, *arguments):
        environment = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
        return subprocess.run([self.tree / "bin/lfrun", *arguments], cwd=self.elsewhere, env=environment,
                              capture_output=True, text=True, timeout=60)

    def test_help_and_the_list_of_plugins_work_from_another_folder(self):
        result = self.run_installed("--help")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("--plugin-dir", result.stdout)
        result = self.run_installed("plugins", "list")
        self.assertEqual(result.returncode, 0, result.stderr)
        installed = {path.name.removesuffix(".lfplugin.so") for path in (self.tree / "plugins").glob("*.lfplugin.so")}
        self.assertLessEqual({"cpu", "qwen_vl", "none"}, installed)
        for name in installed:
            self.assertIn(name, result.stdout)
        self.assertNotIn(str(build), result.stdout)

    def test_a_job_with_pictures_and_a_video_trains(self):
        job = write_job(self.folder / "job", samples=8, job={"steps": 2}, data={"shuffle": False, "max_tokens": 1024})
        data = self.folder / "job/data"
        shutil.copy(MEDIA / "h264.mp4", data / "clip.mp4")
        video = {"video": "clip.mp4", "conversations": [{"from": "human", "value": "<video>\nWhat?"},
                                                        {"from": "gpt", "value": "grey"}]}
        lines = (data / "train.jsonl").read_text()
        (data / "train.jsonl").write_text(json.dumps(video) + "\n" + lines)
        result = self.run_installed(job)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(metrics(self.folder / "job/run")), 2)
        skipped = self.folder / "job/run/skipped.jsonl"
        self.assertEqual(skipped.read_text() if skipped.exists() else "", "")  # the video was read

    def test_nothing_of_the_sdk_or_of_the_tests_is_in_it(self):
        names = {str(path.relative_to(self.tree)) for path in self.tree.rglob("*") if path.is_file()}
        strange = {name for name in names if not name.endswith(".lfplugin.so")} - {
            "bin/lfrun", "lib/liblfcore.so", "lib/liblfparquet.so", "lib/liblfvideo.so", "share/doc/lfrun/LICENSE"}
        strange = {name for name in strange if not name.startswith("plugins/kunlun_torch_")}  # kunlun's part for LibTorch
        self.assertEqual(strange, set())


if __name__ == "__main__":
    unittest.main()
