"""What holds of plugins whatever the command: locks that are demanded, one copy of a vendor's library, what is recorded."""
import hashlib
import json
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import unittest

from tiny_job import Lfrun, write_job

build = pathlib.Path(sys.argv.pop(1)).resolve()
lfrun = Lfrun(build)
REFERENCE = build / "fixtures/references/qwen3_vl-tiny"


class Plugins(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name).resolve()
        cls.job = write_job(cls.folder / "job", job={"steps": 1})
        result = lfrun(cls.job)
        assert result.returncode == 0, result.stderr
        cls.run_folder = cls.job.parent / "run"

    def commands(self):
        out = self.folder / "out"
        samples = self.folder / "samples.csv"
        samples.write_text("text_tokens\n5\n7\n9\n")
        return {"train": [self.job, "--fresh"], "check": ["check", self.job],
                "parity": ["parity", REFERENCE, "text", "--out", out],
                "parity of a family": ["parity", REFERENCE, "text", "--family", "qwen_vl", "--out", out],
                "export": ["export", self.run_folder, self.folder / "exported"],
                "balance": ["balance", samples, "--ranks", "2", "--cap", "0"], "balance of a job": ["balance", self.job]}

    def copy_of_plugins(self, name):
        folder = self.folder / name
        folder.mkdir()
        for plugin in ("cpu", "qwen_vl", "none", "longest_first", "karmarkar_karp", "minimax"):
            shutil.copy(build / f"plugins/{plugin}.lfplugin.so", folder)
        return folder

    def test_every_command_that_loads_plugins_demands_a_lock_where_it_is_told_to(self):
        for name, words in self.commands().items():
            with self.subTest(name):
                result = lfrun(*words, "--locked")
                self.assertEqual(result.returncode, 78, result.stderr)
                self.assertIn("since --locked is given, got none", result.stderr)
        self.assertFalse((self.folder / "exported").exists())

    def test_every_command_takes_plugins_as_they_were_locked_and_none_that_changed(self):
        folder = self.copy_of_plugins("locked")
        alone = Lfrun(build)
        alone.plugins = folder
        self.assertEqual(alone("plugins", "lock").returncode, 0)
        for name, words in self.commands().items():
            with self.subTest(name):
                result = alone(*words, "--locked")
                self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        shutil.rmtree(self.folder / "exported")
        for plugin in ("qwen_vl", "none", "minimax"):
            with open(folder / f"{plugin}.lfplugin.so", "ab") as file:
                file.write(b"x")
        for name, words in self.commands().items():
            with self.subTest(name):
                result = alone(*words)  # a lock that is there is heeded unasked
                self.assertEqual(result.returncode, 78, result.stdout + result.stderr)
                self.assertIn("as locked, got ", result.stderr)

    def test_two_copies_of_a_vendors_library_are_refused_by_check_as_by_training(self):
        folder = self.folder / "vendored"
        folder.mkdir()
        for name in ("device_vendored", "needs_vendor_b"):
            shutil.copy(build / f"test_plugins/{name}.lfplugin.so", folder)
        for home in ("vendor_a", "vendor_b"):
            shutil.copytree(build / "test_plugins" / home, folder / home)
        for command in ([], ["check"]):
            result = lfrun(*command, self.job, "--plugin-dir", folder, "--set", "device.name=vendored",
                           "--set", "balance.policy=good_00")
            self.assertEqual(result.returncode, 78, result.stdout + result.stderr)
            self.assertIn(f"expected one libbkcl.so in the process, got two: {folder}/vendor_", result.stderr)
            for home in ("vendor_a", "vendor_b"):
                self.assertIn(f"{folder}/{home}/libbkcl.so", result.stderr)

    def test_a_table_that_lacks_what_is_required_is_refused_by_check_as_by_training(self):
        for file, option, told in (("good_00", "balance.policy=good_00", "balancer plugin good_00: expected create, destroy and plan"),
                                   ("device_lacks", "device.name=lacks", "table lacks ")):
            folder = self.folder / f"lacking_{file}"
            folder.mkdir()
            shutil.copy(build / f"test_plugins/{file}.lfplugin.so", folder)
            for command in ([], ["check"]):
                with self.subTest(file, command=command):
                    result = lfrun(*command, self.job, "--plugin-dir", folder, "--set", option)
                    self.assertIn(result.returncode, (69, 78), result.stdout + result.stderr)
                    self.assertIn(told, result.stderr)

    def test_an_empty_device_variable_is_no_device(self):
        for words in ([self.job], ["check", self.job], ["parity", REFERENCE]):
            result = lfrun(*words, env={**os.environ, "LF_DEVICE": ""})
            self.assertEqual(result.returncode, 78, result.stderr)
            self.assertIn("LF_DEVICE", result.stderr)

    def with_wrong_balancer(self, wrong, *words):
        folder = self.folder / "wrong"
        folder.mkdir(exist_ok=True)
        shutil.copy(build / "tests/conformance/plugins/wrong_balancer.lfplugin.so", folder)
        result = lfrun(*words, self.job, "--plugin-dir", folder, "--set", "balance.policy=template_cpp",
                       env={**os.environ, "LF_WRONG": wrong})
        return result, folder / "wrong_balancer.lfplugin.so"

    def test_a_plugin_that_crashes_in_a_command_is_named_and_takes_no_finding_with_it(self):
        for words in (["check"], ["--fresh"]):
            with self.subTest(words=words):
                result, plugin = self.with_wrong_balancer("create_crash", *words)
                self.assertNotEqual(result.returncode, 0)
                self.assertIn(f"crashed by SIGSEGV at address 0x10 in {plugin}\n", result.stderr)
                self.assertIn(f"in a call of the plugin {plugin}: report it", result.stderr)
                if words == ["check"]:
                    self.assertIn("device        cpu: ", result.stdout)

    def test_a_plugin_that_crashes_another_rank_than_the_first_is_named_with_that_rank(self):
        result, plugin = self.with_wrong_balancer("crash_on_rank_1", "--fresh", "-n", "2")
        self.assertEqual(result.returncode, 128 + signal.SIGABRT, result.stderr)
        self.assertIn("rank 1 of 2 ", result.stderr)
        self.assertIn("was killed by SIGABRT", result.stderr)
        self.assertIn(f"| lfrun: in a call of the plugin {plugin}: report it", result.stderr)

    def test_the_record_lists_the_plugins_that_were_loaded_with_their_interfaces_and_hashes(self):
        record = json.loads((self.run_folder / "env.json").read_text())
        self.assertEqual({plugin["id"] for plugin in record["plugins"]}, {"cpu", "qwen_vl", "minimax"})
        for plugin in record["plugins"]:
            file = build / f"plugins/{plugin['id']}.lfplugin.so"
            self.assertEqual(os.path.realpath(plugin["path"]), os.path.realpath(file))
            self.assertEqual(plugin["sha256"], hashlib.sha256(file.read_bytes()).hexdigest())
            self.assertIn(f"lf.{plugin['kind']}/1", plugin["interfaces"])
            self.assertEqual(plugin["torch"] == "none", plugin["id"] != "qwen_vl")
        self.assertIn("synchronize", record["device"]["abilities"])


if __name__ == "__main__":
    unittest.main()
