"""Models named in a job file: trained, saved, opened again, and equal to the family that has the same components."""
import json
import pathlib
import re
import sys
import tempfile
import unittest

from internvl_layouts import read, write
from tiny_job import Lfrun, metrics, write_job

lfrun = Lfrun(sys.argv.pop(1))

QWEN3 = {"vocab_size": 272, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "head_dim": 8, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": False}
INTERN_VIT = {"hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 28,
              "patch_size": 7, "attention_bias": True}
TOKENS = {"image_token_id": 262, "video_token_id": 263, "vision_start_token_id": 259, "vision_end_token_id": 260}
MODELS = {
    "intern_vit_qwen3": {"vision": {"type": "intern_vit", **INTERN_VIT}, "projector": {"merge": 2},
                         "decoder": {"type": "qwen3", **QWEN3}},
    "qwen2_5_vit_llama": {
        "vision": {"type": "qwen2_5_vit", "depth": 2, "hidden_size": 24, "intermediate_size": 40, "num_heads": 2,
                   "patch_size": 14, "temporal_patch_size": 2, "window_size": 112, "fullatt_block_indexes": [1]},
        "projector": {"merge": 2, "inner": 40},
        "decoder": {"type": "llama", "vocab_size": 272, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
                    "num_attention_heads": 4, "num_key_value_heads": 2, "rope_theta": 10000.0},
        "tokens": TOKENS},
    "qwen3_vit_qwen3_moe": {
        "vision": {"type": "qwen3_vit", "depth": 2, "hidden_size": 24, "intermediate_size": 40, "num_heads": 2,
                   "num_position_embeddings": 16, "patch_size": 14, "temporal_patch_size": 2, "deepstack_visual_indexes": [0]},
        "projector": {"merge": 2, "norm": "block"},
        "decoder": {"type": "qwen3_moe", **QWEN3, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16},
        "tokens": TOKENS},
}


def toml(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(item)}" for key, item in value.items()) + "}"
    return json.dumps(value)


class Compose(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        cls.job = write_job(cls.folder / "job", data={"max_tokens": 512, "micro_batches": 2, "image_max_pixels": 3136})

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def run_job(self, run, *sets):
        words = [word for item in (f"job.output={run}", *sets) for word in ("--set", item)]
        return lfrun(self.job, *words)

    def train(self, name, *sets):
        run = self.folder / name
        result = self.run_job(run, *sets)
        self.assertEqual(result.returncode, 0, result.stderr)
        return run

    def named(self, model):
        return ["model.family=compose", 'model.config=""', f"model.options={toml(model)}"]

    def opened(self, model):
        return ["model.family=compose", 'model.config=""', f"model.path={model}", f"model.tokenizer={model}"]

    def test_models_from_tables_learn_with_a_frozen_tower_and_open_again_as_they_were_saved(self):
        for name, model in MODELS.items():
            with self.subTest(model=name):
                start = self.train(name + "_start", *self.named(model), "job.steps=1", "optimizer.learning_rate=0")
                run = self.train(name, *self.named(model), 'model.freeze=["vision.*"]')
                losses = [row["loss"] for row in metrics(run)]
                self.assertLess(losses[-1], losses[0] - 0.3)
                before, after = read(start / "model/model.safetensors"), read(run / "model/model.safetensors")
                changed = {tensor for tensor in before if before[tensor] != after[tensor]}
                self.assertFalse([tensor for tensor in changed if tensor.startswith("vision.")])
                for part in ("projector.", "language.layers.1."):
                    self.assertTrue([tensor for tensor in changed if tensor.startswith(part)], part)
                again = self.train(name + "_again", *self.opened(run / "model"), "job.steps=1", "optimizer.learning_rate=0")
                for file in ("model.safetensors", "config.json"):
                    self.assertEqual((again / "model" / file).read_bytes(), (run / "model" / file).read_bytes(), file)

    def test_samples_beyond_the_positions_of_a_dynamic_rotation_are_skipped_and_named_behind_either_tower(self):
        for name in ("intern_vit_qwen3", "qwen2_5_vit_llama"):
            with self.subTest(model=name):
                model = json.loads(json.dumps(MODELS[name]))
                model["decoder"].update(max_position_embeddings=100, rope_scaling={"type": "dynamic", "factor": 2.0})
                run = self.train(name + "_dynamic", *self.named(model), "job.steps=1")
                skipped = (run / "skipped.jsonl").read_text()
                self.assertRegex(skipped, r"train\.jsonl.*a sample of \d+ tokens: beyond max_position_embeddings 100")
                self.assertTrue(all(int(n) > 100 for n in re.findall(r"a sample of (\d+) tokens", skipped)), skipped)
                model["decoder"]["rope_scaling"]["type"] = "default"
                model["decoder"]["rope_scaling"].pop("factor")
                self.assertFalse((self.train(name + "_plain", *self.named(model), "job.steps=1") / "skipped.jsonl").exists())

    def test_the_same_components_give_the_same_bits_as_the_family_that_has_them(self):
        config = {"model_type": "internvl", "downsample_ratio": 0.5, "image_token_id": 266, "tie_word_embeddings": False, "torch_dtype": "float32",
                  "text_config": {"model_type": "qwen3", **QWEN3}, "vision_config": {"model_type": "internvl_vision", **INTERN_VIT}}
        file = self.folder / "internvl.json"
        file.write_text(json.dumps(config))
        family = self.train("family", "model.family=internvl", f"model.config={file}", "job.steps=3")
        model = self.folder / "renamed"
        model.mkdir()
        names = [("vision_tower.", "vision."), ("multi_modal_projector.", "projector."),
                 ("language_model.lm_head", "language.lm_head"), ("language_model.model.", "language.")]

        def rename(tensor):
            for old, new in names:
                if tensor.startswith(old):
                    return new + tensor[len(old):]
            self.fail(tensor)

        write({rename(name): tensor for name, tensor in read(family / "model/model.safetensors").items()}, model / "model.safetensors")
        (model / "config.json").write_text(json.dumps({"model_type": "compose", **MODELS["intern_vit_qwen3"]}))
        (model / "tokenizer.json").write_bytes((family / "model/tokenizer.json").read_bytes())
        composed = self.train("composed", *self.opened(model), "job.steps=3")
        internvl = self.train("internvl", "model.family=internvl", 'model.config=""', f"model.path={family / 'model'}",
                              f"model.tokenizer={family / 'model'}", "job.steps=3")
        for key in ("loss", "grad_norm", "tokens"):
            self.assertEqual([row[key] for row in metrics(composed)], [row[key] for row in metrics(internvl)], key)

    def test_what_is_wrong_with_the_tables_is_told_by_table_and_field(self):
        model = MODELS["intern_vit_qwen3"]
        wrong = [({"vision": model["vision"]}, "model.options.decoder: expected a table, got none"),
                 ({**model, "vision": {"type": "clip"}}, "model.options.vision.type: expected intern_vit, "),
                 ({**model, "decoder": {**model["decoder"], "type": "mamba"}}, "model.options.decoder.type: expected llama, "),
                 ({**model, "decoder": {**model["decoder"], "num_key_value_heads": 3}}, "model.options.decoder.num_key_value_heads"),
                 ({**model, "projector": {"merge": 3}}, "tiles of 28 pixels"),
                 ({**model, "decoder": {**model["decoder"], "novel": 3}}, "model.options.decoder.novel = 3: compose does not know this field"),
                 ({**model, "vision": {**model["vision"], "novel": True}}, "model.options.vision.novel = true"),
                 ({**model, "projector": {"size": 3}}, "model.options.projector.size")]
        several = {"vision": {**model["vision"], "hidden_size": -1, "novel": True}, "projector": {"merge": 0, "size": 3},
                   "decoder": {**model["decoder"], "hidden_size": "wide", "hidden_act": "gelu"}, "tokens": {"picture": 3}}
        told = lfrun("check", self.job, *(word for item in self.named(several) for word in ("--set", item)))
        self.assertEqual(told.returncode, 78, told.stderr)
        for place in ("vision.hidden_size", "vision.novel", "projector.merge", "projector.size", "decoder.hidden_size",
                      "decoder.hidden_act", "tokens.picture"):
            self.assertEqual(told.stderr.count(f"model.options.{place}"), 1, told.stderr)
        self.assertIn("not valid: 7 mistakes", told.stderr)
        for tables, expected in wrong:
            with self.subTest(expected=expected):
                result = self.run_job(self.folder / "wrong", *self.named(tables))
                self.assertEqual(result.returncode, 78, result.stderr)
                self.assertIn(expected, result.stderr)


if __name__ == "__main__":
    unittest.main()
