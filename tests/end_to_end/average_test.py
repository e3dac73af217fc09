"""The moving average of the weights: against one computed here, over ranks, resumed, with adapters, exported as told."""
import pathlib
import shutil
import sys
import tempfile
import unittest

from internvl_layouts import read
from tiny_job import Lfrun, floats, metrics, write_job

lfrun = Lfrun(sys.argv.pop(1))

EVERY_STEP = ["checkpoint.every_steps=1", "checkpoint.keep=20"]
STILL = ["job.steps=1", "optimizer.learning_rate=0"]
LORA = ["lora.rank=4", "lora.alpha=8", 'lora.targets=["*.q_proj", "*.down_proj"]']


class Average(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.scratch.cleanup)
        cls.folder = pathlib.Path(cls.scratch.name)
        cls.job = write_job(cls.folder / "job")
        cls.base = cls.train("base", *STILL, *EVERY_STEP)  # weights as they are initialised

    @classmethod
    def train(cls, name, *sets):
        run = cls.folder / name
        result = lfrun(cls.job, *[word for item in (f"job.output={run}", *sets) for word in ("--set", item)])
        assert result.returncode == 0, result.stderr
        cls.told = result.stderr
        return run

    def export(self, run, *words):
        out = self.folder / "_".join((run.name, "exported", *words))
        result = lfrun("export", run, out, *words)
        self.assertEqual(result.returncode, 0, result.stderr)
        return out

    def model(self, run, folder="model"):
        return read(run / folder / "model.safetensors")

    def saved(self, run, step, kind):
        return read(run / f"ckpt/step-{step:08}/{kind}.safetensors")

    def expect_average(self, run, begin, steps, decay):
        """Of ckpt/ of every step; decay: of the n-th update, from 0."""
        averages = {name: floats(tensor) for name, tensor in begin.items()}
        for step in range(1, steps + 1):
            values, keep = self.saved(run, step, "parameters"), decay(step - 1)
            averages = {name: [keep * a + (1 - keep) * v for a, v in zip(average, floats(values[name]), strict=True)]
                        for name, average in averages.items()}
        kept = self.saved(run, steps, "ema")
        self.assertEqual(set(kept), {name + ".ema" for name in averages})
        for name, average in averages.items():
            scale = max(map(abs, average))
            for a, b in zip(average, floats(kept[name + ".ema"]), strict=True):
                self.assertLessEqual(abs(a - b), 1e-6 * scale + 1e-9, name)  # f32 against f64, over a few steps
        return kept

    def test_it_is_that_of_the_weights_of_every_step_also_over_ranks_and_is_exported_as_the_job_says(self):
        # Two runs are compared: on two ranks the last bits are the same only with sums in fixed order.
        sets = ["ema.decay=0.75", "job.steps=5", "launch.processes=2", "data.micro_batches=2", "reduction.mode=fixed",
                *EVERY_STEP]
        run = self.train("beside", *sets)
        kept = self.expect_average(run, self.saved(self.base, 1, "parameters"), 5, lambda n: 0.75)
        exported = self.model(run, "model_ema")
        self.assertIn(str(run / "model_ema"), self.told)
        for name in ("model.norm.weight", "model.layers.1.mlp.down_proj.weight"):
            self.assertEqual(kept[name + ".ema"][2], exported[name][2])
        self.assertNotEqual(self.model(run), exported)
        self.assertEqual(sorted(p.name for p in (run / "model").iterdir()), sorted(p.name for p in (run / "model_ema").iterdir()))

        instead = self.train("instead", *sets, "ema.export=instead")
        self.assertEqual(self.model(instead), exported)
        self.assertFalse((instead / "model_ema").exists())
        for words, expected in ((["--weights", "trained"], self.model(run)), (["--weights", "ema"], exported), ([], self.model(run))):
            self.assertEqual(self.model(self.export(run, *words), "."), expected, words)
        self.assertEqual(self.model(self.export(instead), "."), exported)

    def test_written_instead_of_the_weights_it_leaves_no_older_one_beside_them(self):
        run = self.train("turned", "ema.decay=0.75", "job.steps=3")
        self.assertTrue((run / "model_ema").exists())
        self.train("turned", "ema.decay=0.75", "ema.export=instead", "job.steps=5")
        self.assertFalse((run / "model_ema").exists())
        self.assertIn(f"removed {run / 'model_ema'}", self.told)

    def test_training_is_the_same_with_and_without_it(self):
        with_one, without = self.train("with", "ema.decay=0.9"), self.train("without")
        self.assertEqual([row["loss"] for row in metrics(with_one)], [row["loss"] for row in metrics(without)])
        self.assertEqual(self.model(with_one), self.model(without))

    def test_with_warmup_its_decay_rises_with_the_updates(self):
        run = self.train("warmup", "ema.decay=0.3", "ema.warmup=true", "job.steps=6", *EVERY_STEP)
        self.expect_average(run, self.saved(self.base, 1, "parameters"), 6, lambda n: min(0.3, (1 + n) / (10 + n)) if n else 0)

    def test_a_resumed_run_has_its_bits_and_another_decay_is_refused(self):
        sets = ["ema.decay=0.9", "ema.warmup=true", "job.steps=8", *EVERY_STEP]
        straight = self.train("straight", *sets)
        parts = self.folder / "parts"
        shutil.copytree(straight, parts)
        for step in range(4, 9):
            shutil.rmtree(parts / f"ckpt/step-{step:08}")
        for folder in ("model", "model_ema"):
            shutil.rmtree(parts / folder)
        for other in ("ema.decay=0.8", "ema.warmup=false", "ema.decay=0"):
            result = lfrun(self.job, *[word for item in (f"job.output={parts}", *sets, other, "ema.warmup=false") for word in ("--set", item)])
            self.assertEqual(result.returncode, 78, result.stderr)
            self.assertIn("ema.", result.stderr)
            self.assertNotIn("not known", result.stderr)
        self.assertIn("ema.decay: was 0.9, is 0\n", result.stderr)
        self.train("parts", *sets)
        self.assertIn("resumed after step 3", self.told)
        self.assertEqual(self.saved(parts, 8, "ema"), self.saved(straight, 8, "ema"))
        for folder in ("model", "model_ema"):
            self.assertEqual(self.model(parts, folder), self.model(straight, folder), folder)

    def test_sums_in_fixed_order_give_it_the_same_bits_on_any_number_of_ranks(self):
        sets = ["ema.decay=0.9", "reduction.mode=fixed"]
        one = self.train("one", *sets)
        two = self.train("two", *sets, "launch.processes=2", "data.micro_batches=2")
        self.assertEqual(self.model(one, "model_ema"), self.model(two, "model_ema"))

    def test_what_is_frozen_has_none_and_keeps_its_bytes_in_both_exports(self):
        run = self.train("frozen", 'model.freeze=["vision"]', "ema.decay=0.5", *EVERY_STEP)
        base, trained, averaged = self.model(self.base), self.model(run), self.model(run, "model_ema")
        for name in base:
            if name.startswith("visual."):
                self.assertEqual(averaged[name], base[name], name)
        self.assertEqual({name for name in base if base[name] != trained[name]}, {name for name in base if base[name] != averaged[name]})
        self.assertFalse([name for name in self.saved(run, 6, "ema") if name.startswith("visual.")])

    def test_of_adapters_it_is_that_of_their_factors_which_are_merged_or_saved_apart(self):
        over = ["model.config=''", f"model.path={self.base / 'model'}", f"model.tokenizer={self.base / 'model'}"]
        begin = self.train("adapters_begin", *over, *LORA, *STILL, *EVERY_STEP)
        run = self.train("adapters", *over, *LORA, "ema.decay=0.6", "optimizer.learning_rate=3e-2", *EVERY_STEP)
        self.expect_average(run, self.saved(begin, 1, "parameters"), 6, lambda n: 0.6)
        adapter = self.export(run, "--adapter", "--weights", "ema")
        self.assertNotEqual(read(adapter / "adapter_model.safetensors"), read(run / "adapter/adapter_model.safetensors"))
        applied = self.train("adapters_applied", *over, f"lora.path={adapter}", *STILL)
        losses = {"applied": metrics(applied)[0]["loss"]}
        for folder in ("model", "model_ema"):
            opened = ["model.config=''", f"model.path={run / folder}", f"model.tokenizer={run / folder}"]
            losses[folder] = metrics(self.train(f"adapters_{folder}", *opened, *STILL))[0]["loss"]
        self.assertAlmostEqual(losses["applied"], losses["model_ema"], delta=2e-6)
        self.assertNotAlmostEqual(losses["model"], losses["model_ema"], delta=1e-4)

    def test_check_counts_it_and_one_that_is_not_kept_is_refused(self):
        told = lfrun("check", self.job, "--set", "ema.decay=0.999").stdout
        self.assertIn("moving average (rank 0)", told)
        self.assertNotIn("moving average", lfrun("check", self.job).stdout)
        for option in ("ema.export=instead", "ema.warmup=true"):
            refused = lfrun("check", self.job, "--set", option)
            self.assertEqual(refused.returncode, 78)
            self.assertIn("ema.decay above 0", refused.stderr)
        self.assertEqual(lfrun("check", self.job, "--set", "ema.decay=1").returncode, 78)
        result = lfrun("export", self.base, self.folder / "none", "--weights", "ema")
        self.assertEqual(result.returncode, 64, result.stderr)
        self.assertIn("kept no average", result.stderr)


if __name__ == "__main__":
    unittest.main()
