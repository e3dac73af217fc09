"""InternVL through the whole launcher: training, layouts of work, loss weights, freezing, and directories in and out."""
import pathlib
import sys
import tempfile
import unittest

from internvl_layouts import read
from tiny_job import INTERNVL, INTERNVL_ORIGINAL, Lfrun, metrics, write_job

lfrun = Lfrun(sys.argv.pop(1))


class InternVl(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        data = {"max_tokens": 512, "micro_batches": 2, "image_max_pixels": 3136}
        cls.jobs = {name: write_job(cls.folder / name, config=config, model={"family": "internvl"}, data=data)
                    for name, config in (("hf", INTERNVL), ("original", INTERNVL_ORIGINAL))}

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def train(self, layout, name, *sets):
        run = self.folder / f"{layout}_{name}"
        words = [word for item in (f"job.output={run}", *sets) for word in ("--set", item)]
        result = lfrun(self.jobs[layout], *words)
        self.assertEqual(result.returncode, 0, result.stderr)
        return run

    def curve(self, run, key="loss"):
        return [row[key] for row in metrics(run)]

    def test_the_loss_falls_and_recomputing_changes_no_bit(self):
        for layout in self.jobs:
            with self.subTest(layout=layout):
                plain = self.train(layout, "plain")
                curve = self.curve(plain)
                self.assertLess(curve[-1], curve[0] - 0.3)
                whole = self.train(layout, "whole", "memory.recompute=whole")
                self.assertEqual(self.curve(whole), curve)
                self.assertEqual(read(whole / "model/model.safetensors"), read(plain / "model/model.safetensors"))

    def test_in_bf16_it_learns_along_the_curve_of_f32(self):
        for layout in self.jobs:
            with self.subTest(layout=layout):
                plain = self.curve(self.train(layout, "f32", "job.steps=12"))
                rounded = self.curve(self.train(layout, "bf16", "job.steps=12", "precision.compute=bf16"))
                self.assertNotEqual(plain, rounded)
                for a, b in zip(plain, rounded, strict=True):
                    self.assertLess(abs(a - b), 0.01 * a)  # 8 bits a number, of which a loss is a mean over many

    def test_one_and_two_ranks_agree_whatever_a_token_weighs(self):
        for weighting in ("token", "sample", "square"):
            with self.subTest(weighting=weighting):
                option = f'model.options={{loss_weighting="{weighting}"}}'
                one = self.train("hf", f"one_{weighting}", option)
                two = self.train("hf", f"two_{weighting}", option, "launch.processes=2", "data.micro_batches=1")
                for key in ("loss", "grad_norm"):
                    for a, b in zip(self.curve(one, key), self.curve(two, key)):
                        self.assertLessEqual(abs(a - b), 2e-5 * abs(a), key)
        self.assertNotEqual(self.curve(self.folder / "hf_one_token"), self.curve(self.folder / "hf_one_square"))

    def test_freezing_the_tower_trains_the_projector_and_the_decoder(self):
        start = read(self.train("hf", "start", "job.steps=1", "optimizer.learning_rate=0") / "model/model.safetensors")
        frozen = read(self.train("hf", "frozen", 'model.freeze=["vision_tower.*"]', "job.steps=3") / "model/model.safetensors")
        changed = {name for name in start if start[name] != frozen[name]}
        self.assertFalse([name for name in changed if name.startswith("vision_tower.")])
        self.assertTrue([name for name in changed if name.startswith("multi_modal_projector.")])
        self.assertTrue([name for name in changed if name.startswith("language_model.")])

    def test_a_directory_that_was_not_trained_is_written_back_byte_for_byte_in_both_layouts(self):
        for layout in self.jobs:
            with self.subTest(layout=layout):
                model = self.train(layout, "made", "job.steps=2") / "model"
                (model / "README.md").write_text("kept")
                again = self.train(layout, "again", "job.steps=1", "optimizer.learning_rate=0", f"model.path={model}",
                                   'model.config=""', f"model.tokenizer={model}") / "model"
                names = sorted(p.name for p in model.iterdir())
                self.assertEqual(names, sorted(p.name for p in again.iterdir()))
                for name in names:
                    self.assertEqual((model / name).read_bytes(), (again / name).read_bytes(), name)
        self.assertIn("language_model.model.layers.0.attention.wqkv.weight", read(self.folder / "original_made/model/model.safetensors"))
        self.assertIn("language_model.model.layers.0.mlp.experts.3.up_proj.weight", read(self.folder / "hf_made/model/model.safetensors"))


if __name__ == "__main__":
    unittest.main()
