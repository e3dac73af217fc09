"""Diffusion through the whole launcher: training on latents of many sizes, layouts of work, chance, directories."""
import json
import pathlib
import random
import shutil
import struct
import sys
import tempfile
import unittest

from internvl_layouts import read, write
from tiny_job import Lfrun, metrics, write_job

lfrun = Lfrun(sys.argv.pop(1))
CONFIGS = pathlib.Path(__file__).resolve().parents[2] / "configs"

FLUX = {"_class_name": "FluxTransformer2DModel", "_diffusers_version": "0.42.1", "patch_size": 1, "in_channels": 12, "num_layers": 1,
        "num_single_layers": 1, "attention_head_dim": 12, "num_attention_heads": 2, "joint_attention_dim": 6,
        "pooled_projection_dim": 5, "guidance_embeds": True, "axes_dims_rope": [4, 4, 4]}
QWEN_IMAGE = {"_class_name": "QwenImageTransformer2DModel", "_diffusers_version": "0.42.1", "patch_size": 2, "in_channels": 12,
              "out_channels": 3, "num_layers": 2, "attention_head_dim": 12, "num_attention_heads": 2, "joint_attention_dim": 6,
              "axes_dims_rope": [4, 4, 4], "zero_cond_t": True}
WAN = {"_class_name": "WanTransformer3DModel", "_diffusers_version": "0.42.1", "patch_size": [1, 2, 2], "num_attention_heads": 2,
       "attention_head_dim": 12, "in_channels": 3, "out_channels": 3, "text_dim": 6, "freq_dim": 16, "ffn_dim": 40, "num_layers": 2,
       "cross_attn_norm": True, "qk_norm": "rms_norm_across_heads", "eps": 1e-6}


def write_tensors(path, tensors):
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + 4 * len(values)]}
        data += struct.pack(f"<{len(values)}f", *values)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


WAN_AUTHORS = {"_class_name": "WanModel", "_diffusers_version": "0.33.0", "model_type": "ti2v", "patch_size": [1, 2, 2], "text_len": 512,
               "in_dim": 3, "dim": 24, "ffn_dim": 40, "freq_dim": 16, "text_dim": 6, "out_dim": 3, "num_heads": 2, "num_layers": 2,
               "eps": 1e-6}


def write_latents(folder, samples, channels=3, text=6, pooled=5, edit=False, frames=(1,), behind=0):
    draw = random.Random(5)

    def numbers(*shape):
        count = 1
        for side in shape:
            count *= side
        # A value that hardly changes within a picture, so that there is something to learn.
        level = draw.gauss(0, 1)
        return list(shape), [level + 0.1 * draw.gauss(0, 1) for _ in range(count)]

    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "train.jsonl", "w") as out:
        for i in range(samples):
            h, w, f = draw.choice([2, 4, 6]), draw.choice([2, 4, 8]), frames[i % len(frames)]
            tensors = {"latents": numbers(channels, h, w) if f == 1 else numbers(channels, f, h, w),
                       "context": numbers(1 + i % 5, text), "pooled": numbers(pooled)}
            if edit and i % 2:
                tensors["condition.0"] = numbers(channels, 4, 2)
            if behind:
                tensors["y"] = numbers(behind, f, h, w)
            write_tensors(folder / f"{i}.safetensors", tensors)
            kind = "image" if f == 1 else "video"
            out.write(json.dumps({"messages": [{"role": "user", "content": f"number {i}"}, {"role": "assistant", "content": [
                {"type": kind, "path": f"{i}.safetensors"}]}]}) + "\n")
    write_tensors(folder / "empty_text.safetensors", {"context": numbers(1, text), "pooled": numbers(pooled)})


class Diffusion(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        cls.jobs = {}
        for name, config in (("flux", FLUX), ("qwen_image", QWEN_IMAGE), ("wan", WAN), ("wan_authors", WAN_AUTHORS)):
            folder = cls.folder / name
            wan = name.startswith("wan")
            options = {"text_dropout": 0.3, "null_text": "empty_text.safetensors"} | ({"first_frame": 0.5} if wan else {})
            cls.jobs[name] = write_job(folder, config=config, model={"family": "diffusion", "tokenizer": ""}, job={"steps": 12},
                                       data={"path": "latents/train.jsonl", "max_tokens": 64, "micro_batches": 4},
                                       balance={"costs": "stated"}, **{"model.options": options})
            write_latents(folder / "latents", 24, edit=name == "qwen_image", frames=(1, 2, 3) if wan else (1,))

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def train(self, model, name, *sets, start=None):
        """start: a model directory instead of the job's random weights."""
        run = self.folder / f"{model}_{name}"
        begin = (f"model.path={start}", 'model.config=""') if start else ()
        words = [word for item in (f"job.output={run}", *begin, *sets) for word in ("--set", item)]
        result = lfrun(self.jobs[model], *words)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.told = result.stderr
        return run

    def curve(self, run, key="loss"):
        return [row[key] for row in metrics(run)]

    def weights(self, run, folder="model"):
        return read(run / folder / "diffusion_pytorch_model.safetensors")

    # Losses of single steps are mostly the draws' noise: what is compared is the loss on the same draws, before and after.
    def test_training_lowers_the_loss_on_the_same_draws_and_recomputing_changes_no_bit(self):
        for model in ("flux", "qwen_image", "wan"):
            with self.subTest(model=model):
                still = ("optimizer.learning_rate=0", "job.steps=6", "job.seed=11")
                trained = self.train(model, "trained", "job.steps=40")
                before = self.train(model, "before", *still, start=self.train(model, "start", "optimizer.learning_rate=0", "job.steps=1") / "model")
                after = self.train(model, "after", *still, start=trained / "model")
                self.assertLess(sum(self.curve(after)), 0.8 * sum(self.curve(before)))
                whole = self.train(model, "whole", "job.steps=40", "memory.recompute=whole")
                self.assertEqual(self.curve(whole), self.curve(trained))

    def test_ranks_and_micro_batches_change_neither_noise_nor_loss(self):
        for model in ("qwen_image", "wan"):
            with self.subTest(model=model):
                one = self.train(model, "one")
                two = self.train(model, "two", "launch.processes=2", "data.micro_batches=2")
                for key in ("loss", "grad_norm"):
                    for a, b in zip(self.curve(one, key), self.curve(two, key), strict=True):
                        self.assertLessEqual(abs(a - b), 2e-5 * abs(a) + 1e-7, key)

    def test_every_epoch_draws_anew_and_the_same_seed_draws_the_same(self):
        # A step is an epoch, in the same order, of weights that stay as they are: what differs is chance.
        sets = ("job.steps=5", "data.shuffle=false", "optimizer.learning_rate=0", "data.packing=false", "data.micro_batches=24")
        first, again = (self.train("flux", f"epochs_{i}", *sets) for i in range(2))
        self.assertEqual(self.curve(first, "samples"), [24] * 5)
        self.assertEqual(self.curve(first), self.curve(again))
        self.assertEqual(len(set(self.curve(first))), 5)

    def test_a_resumed_run_has_the_bits_of_the_straight_one_average_and_draws_of_later_epochs_included(self):
        sets = ("job.steps=12", "ema.decay=0.9", "checkpoint.every_steps=1", "checkpoint.keep=20")
        straight = self.train("wan", "straight", *sets)
        self.assertGreater(sum(self.curve(straight, "samples")), 2 * 24)  # beyond the second epoch
        parts = self.folder / "wan_parts"
        shutil.copytree(straight, parts)
        for step in range(8, 13):
            shutil.rmtree(parts / f"ckpt/step-{step:08}")
        for folder in ("model", "model_ema"):
            shutil.rmtree(parts / folder)
        self.train("wan", "parts", *sets)
        self.assertIn("resumed after step 7", self.told)
        self.assertEqual(self.curve(parts), self.curve(straight))
        for folder in ("model", "model_ema"):
            self.assertEqual(self.weights(parts, folder), self.weights(straight, folder), folder)

    def test_a_directory_that_was_not_trained_is_written_back_byte_for_byte(self):
        for model in self.jobs:
            with self.subTest(model=model):
                made = self.train(model, "made", "job.steps=2") / "model"
                (made / "README.md").write_text("kept")
                again = self.train(model, "again", "job.steps=1", "optimizer.learning_rate=0", start=made) / "model"
                names = sorted(p.name for p in made.iterdir())
                self.assertIn("diffusion_pytorch_model.safetensors", names)
                self.assertEqual(names, sorted(p.name for p in again.iterdir()))
                for name in names:
                    self.assertEqual((made / name).read_bytes(), (again / name).read_bytes(), name)
        self.assertIn("blocks.1.self_attn.norm_q.weight", self.weights(self.folder / "wan_authors_made"))

    def test_weights_that_are_missing_or_of_another_shape_are_one_error_that_names_them(self):
        for model, name in (("flux", "x_embedder.weight"), ("wan_authors", "blocks.1.cross_attn.k.weight")):
            made = self.train(model, "whole_weights", "optimizer.learning_rate=0", "job.steps=1") / "model"
            tensors = read(made / "diffusion_pytorch_model.safetensors")
            dtype, shape, data = tensors[name]
            for change, replaced in (("missing", {}), ("shape", {name: (dtype, [shape[0] // 2, shape[1] * 2], data)}),
                                     ("more", {name: tensors[name], "blocks.9.novel": tensors[name]})):
                with self.subTest(model=model, change=change):
                    broken = self.folder / f"{model}_{change}"
                    shutil.copytree(made, broken)
                    rest = {key: tensor for key, tensor in tensors.items() if key != name}
                    write(rest | replaced, broken / "diffusion_pytorch_model.safetensors")
                    result = lfrun(self.jobs[model], "--set", f"model.path={broken}", "--set", 'model.config=""', "--set",
                                   f"job.output={self.folder}/refused")
                    self.assertEqual(result.returncode, 65, result.stderr)
                    self.assertIn("blocks.9.novel" if change == "more" else name, result.stderr)

    def test_a_frozen_part_keeps_its_bytes(self):
        start = self.weights(self.train("wan", "unfrozen", "optimizer.learning_rate=0", "job.steps=1"))
        frozen = self.weights(self.train("wan", "frozen", 'model.freeze=["blocks.0.*"]', "job.steps=3"))
        changed = {name for name in start if start[name] != frozen[name]}
        self.assertFalse([name for name in changed if name.startswith("blocks.0.")])
        self.assertIn("proj_out.weight", changed)

    def test_adapters_learn_are_opened_again_and_merged(self):
        for model, targets in (("flux", ["*.attn.to_q", "*.proj_mlp"]), ("qwen_image", ["*.add_k_proj", "*.img_mlp.net.0.proj"]),
                               ("wan", ["*.attn2.to_v", "*.ffn.net.2"])):
            with self.subTest(model):
                loss = lambda run: self.curve(run)[0]
                # The last map begins at 0, and lets no gradient through.
                base = self.train(model, "begun", "job.steps=4", "optimizer.learning_rate=1e-2") / "model"
                still = ["job.steps=1", "optimizer.learning_rate=0"]
                plain = self.train(model, "plain", *still, start=base)
                run = self.train(model, "adapts", "lora.rank=4", "lora.alpha=16", f"lora.targets={json.dumps(targets)}", "job.steps=6",
                                 "optimizer.learning_rate=1e-2", start=base)
                self.assertEqual(loss(run), loss(plain))
                applied = self.train(model, "applied", f"lora.path={run / 'adapter'}", *still, start=base)
                merged = self.train(model, "merged", *still, start=run / "model")
                self.assertNotEqual(loss(applied), loss(plain))
                self.assertAlmostEqual(loss(applied), loss(merged), delta=2e-6)
                files = sorted(path.name for path in (run / "adapter").iterdir())
                self.assertIn("pytorch_lora_weights.safetensors", files)
                for file in files:
                    self.assertEqual((applied / "adapter" / file).read_bytes(), (run / "adapter" / file).read_bytes(), file)
                names = set(read(run / "adapter/adapter_model.safetensors"))
                for target in targets:
                    self.assertTrue([name for name in names if f"{target[1:]}.lora_A" in name], target)

    def test_a_bad_file_of_latents_is_passed_over_and_named(self):
        data = self.folder / "bad"
        shutil.copytree(self.folder / "flux/latents", data)
        write_tensors(data / "7.safetensors", {"latents": ([3, 2, 2], [0.0] * 11 + [float("nan")]), "context": ([1, 6], [1.0] * 6),
                                               "pooled": ([5], [1.0] * 5)})
        run = self.train("flux", "bad_file", f"data.path={data}/train.jsonl", "data.max_bad=0.5")
        skipped = [json.loads(line) for line in (run / "skipped.jsonl").read_text().splitlines()]
        self.assertTrue(skipped)
        for line in skipped:
            self.assertIn("train.jsonl:8", json.dumps(line))
            self.assertIn("latents", json.dumps(line))

    def test_the_quick_starts_train_on_latents_of_their_shapes(self):
        data = self.folder / "quick"
        write_latents(data, 16, channels=16, text=64, pooled=64)
        for name in ("flux", "qwen_image", "wan"):
            with self.subTest(name=name):
                run = self.folder / f"quick_{name}"
                result = lfrun(CONFIGS / f"{name}_quickstart.toml", "--set", f"data.path={data}/train.jsonl", "--set", f"job.output={run}",
                               "--set", "job.steps=2", "--set", "schedule.warmup_steps=0", "--set", "data.max_tokens=64")
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(len(metrics(run)), 2)


if __name__ == "__main__":
    unittest.main()
