"""The templates, built out of tree against the installed SDK by one compiler: they conform, and train."""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "end_to_end"))
from installed import build_templates, install, run  # noqa: E402
from tiny_job import Lfrun, metrics, write_job  # noqa: E402

build, torch, compilers = pathlib.Path(sys.argv[1]), sys.argv[2], (sys.argv[3], sys.argv[4])
del sys.argv[1:5]
lfrun = Lfrun(build)


class Templates(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.scratch.name)
        install(build, cls.root / "sdk")
        cls.plugins = build_templates(cls.root / "sdk", cls.root / "mine", compilers, torch)
        cls.job = write_job(cls.root / "job", launch={"processes": 2}, model={"family": "template_c"},
                            data={"max_tokens": 512, "micro_batches": 2}, job={"steps": 12},
                            optimizer={"learning_rate": 0.03})
        (cls.root / "job/config.json").write_text('{"model_type": "bytes", "width": 16}')

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def train(self, name, **options):
        sets = [word for key, value in options.items() for word in ("--set", f"{key.replace('__', '.')}={value}")]
        result = lfrun("--plugin-dir", self.plugins, self.job, "--set", f"job.output={self.root / name}", *sets)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return [row["loss"] for row in metrics(self.root / name)]

    def test_all_of_them_conform(self):
        said = run("ctest", "--test-dir", self.root / "mine/build", "--output-on-failure")
        self.assertIn("100% tests passed, 0 tests failed out of 6", said)

    def test_each_exports_one_symbol(self):
        for plugin in self.plugins.glob("*.lfplugin.so"):
            listed = run("nm", "-D", "--defined-only", plugin).split()
            self.assertEqual(listed[2:], ["lf_plugin_entry"], plugin)

    def test_the_model_in_c_trains_like_its_twin_in_libtorch_on_two_ranks(self):
        in_c, twin = self.train("c"), self.train("twin", model__family="template_cpp")
        self.assertEqual(len(in_c), 12)
        self.assertLess(in_c[-1], 0.8 * in_c[0])
        for step, (one, other) in enumerate(zip(in_c, twin)):
            # Sums in another order, f32: they part slowly.
            self.assertLess(abs(one - other), 1e-4 * other, f"step {step}: {one} and {other}")

    def test_devices_change_no_bit_and_balancers_only_the_order_of_sums(self):
        plain = self.train("plain", balance__policy="none")
        for kind in ("c", "cpp"):
            self.assertEqual(plain, self.train(f"device_{kind}", device__name=f"template_{kind}", balance__policy="none"))
            for one, other in zip(plain, self.train(f"balancer_{kind}", balance__policy=f"template_{kind}"), strict=True):
                self.assertLess(abs(one - other), 1e-6 * one)

    def test_a_wrong_plugin_does_not_pass_the_build(self):
        folder = self.root / "wrong"
        folder.mkdir()
        (folder / "two.c").write_text('__attribute__((visibility("default"))) int lf_plugin_entry = 1;\n')
        (folder / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.22)\nproject(wrong C)\nfind_package(lfrun_sdk REQUIRED)\n"
            "lf_add_plugin(two SOURCES two.c)\n")
        run("cmake", "-S", folder, "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={self.root / 'sdk'}",
            f"-DCMAKE_C_COMPILER={compilers[0]}")
        with self.assertRaisesRegex(AssertionError, r"expected a manifest\s+with abi, kind, id"):
            run("cmake", "--build", folder / "build")
        self.assertEqual(list(folder.glob("build/plugins/*.so")), [])

    def test_a_twin_for_another_libtorch_is_refused_with_both_builds_named_and_never_opened(self):
        other = self.root / "other"
        other.mkdir()
        bytes_of = (self.plugins / "model_cpp.lfplugin.so").read_bytes()
        own = b'"torch":"2.'
        self.assertIn(own, bytes_of)
        (other / "model_cpp.lfplugin.so").write_bytes(bytes_of.replace(own, b'"torch":"1.'))
        (other / "model_cpp.lfplugin.so").chmod(0o755)
        result = lfrun("--plugin-dir", other, self.job, "--set", "model.family=template_cpp")
        self.assertEqual(result.returncode, 78)
        self.assertRegex(result.stderr, r"expected a plugin for LibTorch 2\.\S+, got one for 1\.\S+; rebuild it")


if __name__ == "__main__":
    unittest.main()
