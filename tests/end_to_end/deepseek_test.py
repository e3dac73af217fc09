"""DeepSeek from a model directory and plain text: layouts of ranks and micro-batches, directories, FP8, warm-up."""
import json
import pathlib
import shutil
import struct
import sys
import tempfile
import unittest

from tiny_job import Lfrun, deepseek_tokenizer

build = pathlib.Path(sys.argv.pop(1))
lfrun = Lfrun(build)
REFERENCES = build / "fixtures/references"


def read(file):
    """name -> (dtype, shape, bytes)"""
    data = file.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    return {name: (e["dtype"], e["shape"], data[8 + size + e["data_offsets"][0]:8 + size + e["data_offsets"][1]])
            for name, e in header.items() if name != "__metadata__"}


class Deepseek(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        (self.folder / "tokenizer").mkdir()
        (self.folder / "tokenizer/tokenizer.json").write_text(json.dumps(deepseek_tokenizer()))
        with (self.folder / "train.jsonl").open("w") as lines:
            for i in range(24):
                lines.write(json.dumps({"text": f"{i}: " + "the same words again and again. " * (1 + i % 4)}) + "\n")
        config = json.loads((REFERENCES / "deepseek_v32-tiny/config_hub.json").read_text())
        config.update(vocab_size=264, bos_token_id=0, eos_token_id=1, pad_token_id=None)
        (self.folder / "config.json").write_text(json.dumps(config))

    def write_job(self, name, steps=4, processes=1, micro_batches=2, options="", extra="", model=None, compute="fp32",
                  seed=1, learning_rate=3e-3):
        (self.folder / f"{name}.toml").write_text(f"""
[job]
name = "{name}"
output = "{self.folder}/{name}"
steps = {steps}
seed = {seed}
[launch]
processes = {processes}
threads = 1
[model]
family = "deepseek"
{model or 'config = "config.json"'}
tokenizer = "tokenizer"
options = {{ {options} }}
[data]
path = "train.jsonl"
max_tokens = 200
micro_batches = {micro_batches}
[optimizer]
learning_rate = {learning_rate}
[precision]
compute = "{compute}"
{extra}
""")

    def run_job(self, name, **settings):
        self.write_job(name, **settings)
        result = lfrun(self.folder / f"{name}.toml")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return [json.loads(line) for line in (self.folder / name / "metrics.jsonl").read_text().splitlines()]

    def test_texts_are_learnt_and_every_loss_is_told(self):
        steps = self.run_job("learns", steps=25)
        self.assertLess(steps[-1]["loss"], 0.7 * steps[0]["loss"])
        for name in ("ce_loss", "mtp_loss", "indexer_kl"):
            self.assertIn(name, json.dumps(steps[0]))

    def test_in_bf16_it_learns_along_the_curve_of_f32(self):
        plain = self.run_job("f32", steps=20)
        rounded = self.run_job("bf16", steps=20, compute="bf16")
        self.assertNotEqual([row["loss"] for row in plain], [row["loss"] for row in rounded])
        for a, b in zip(plain, rounded, strict=True):
            # Choices of experts and rows may fall otherwise where scores are within rounding of each other.
            self.assertLess(abs(a["loss"] - b["loss"]), 0.05 * a["loss"])

    def test_ranks_and_micro_batches_change_no_loss_though_each_has_a_count_of_its_own(self):
        options = "balance_loss = 0.01"
        one = self.run_job("one", processes=1, micro_batches=4, options=options)
        two = self.run_job("two", processes=2, micro_batches=2, options=options)
        for a, b in zip(one, two, strict=True):
            self.assertAlmostEqual(a["loss"], b["loss"], delta=2e-4 * a["loss"])
            self.assertAlmostEqual(a["grad_norm"], b["grad_norm"], delta=2e-3 * a["grad_norm"])

    def test_the_routers_bias_moves_by_its_step_against_the_load(self):
        self.run_job("bias", steps=3, options="bias_update_rate = 0.125")
        biases = [t for n, t in read(self.folder / "bias/model/model.safetensors").items() if "correction_bias" in n]
        self.assertEqual(len(biases), 3)
        for _, shape, data in biases:
            values = struct.unpack(f"<{shape[0]}f", data)
            self.assertTrue(any(values))
            for value in values:
                self.assertEqual(value * 8, round(value * 8))
                self.assertLessEqual(abs(value), 3 * 0.125)

    def test_the_warm_up_changes_the_indexers_and_nothing_else(self):
        directory = self.folder / "published"
        directory.mkdir()
        self.run_job("first", steps=1)
        for file in ("config.json", "model.safetensors"):
            shutil.copy(self.folder / "first/model" / file, directory / file)
        before = read(directory / "model.safetensors")
        steps = self.run_job("warm", steps=12, options='indexer = "warmup"', model='path = "published"')
        after = read(self.folder / "warm/model/model.safetensors")
        changed = {n for n in before if before[n] != after[n]}
        self.assertEqual(changed, {n for n in before if ".indexer." in n})
        self.assertLess(steps[-1]["loss"], steps[0]["loss"])

    def dense_directory(self):
        """What a run of the same model without indexers leaves; config.json, weights."""
        config = json.loads((self.folder / "config.json").read_text())
        dense = {k: v for k, v in config.items() if not k.startswith("index") and k != "layer_types"}
        (self.folder / "dense.json").write_text(json.dumps({**dense, "model_type": "deepseek_v3",
                                                            "architectures": ["DeepseekV3ForCausalLM"]}))
        self.run_job("dense", steps=2, model='config = "dense.json"')
        (self.folder / "v3").mkdir()
        for file in ("config.json", "model.safetensors"):
            shutil.copy(self.folder / "dense/model" / file, self.folder / "v3" / file)
        return read(self.folder / "v3/model.safetensors")

    NEW = 'path = "v3"\nconfig = "config.json"\nnew_parameters = ["*.indexer.*"]'

    def test_a_directory_without_indexers_starts_the_warm_up_of_one_with_them(self):
        before = self.dense_directory()
        self.assertFalse(any(".indexer." in name for name in before))
        dense = self.run_job("dense_again", steps=1, model='path = "v3"', extra="[schedule]\nwarmup_steps = 1")
        steps = self.run_job("warm", steps=12, options='indexer = "warmup"', model=self.NEW)
        self.assertLess(steps[-1]["loss"], steps[0]["loss"])
        self.assertAlmostEqual(steps[0]["aux"]["ce_loss"], dense[0]["aux"]["ce_loss"], delta=1e-5)  # dense attention, as it was
        after = read(self.folder / "warm/model/model.safetensors")
        self.assertEqual({name: after[name] for name in before}, before)
        added = set(after) - set(before)
        self.assertTrue(added and all(".indexer." in name for name in added), added)
        self.assertIn("deepseek_v32", (self.folder / "warm/model/config.json").read_text())
        self.run_job("sparse", steps=2, model=f'path = "{self.folder}/warm/model"')  # nothing is new any more
        told = lfrun("check", self.folder / "warm.toml", "--set", f"job.output={self.folder}/other")
        self.assertEqual(told.returncode, 0, told.stderr)
        for text in (told.stdout, (self.folder / "warm/log/rank0.log").read_text()):
            self.assertIn(f"{len(added)} parameters of ", text)
            self.assertIn("initialised by seed 1: ", text)

    def test_what_begins_anew_is_the_same_on_every_rank_and_follows_the_seed(self):
        self.dense_directory()
        still = dict(steps=1, options='indexer = "warmup"', model=self.NEW)
        made = {}
        for name, processes, seed in (("one", 1, 5), ("two", 2, 5), ("other", 1, 6)):
            self.run_job(name, processes=processes, **still, extra="", seed=seed, learning_rate=0)
            made[name] = read(self.folder / name / "model/model.safetensors")
        self.assertEqual(made["one"], made["two"])
        self.assertEqual({name for name in made["one"] if made["one"][name] != made["other"][name]},
                         {name for name in made["one"] if ".indexer." in name and "norm" not in name})

    def test_missing_weights_name_the_option_and_patterns_that_begin_nothing_are_refused(self):
        self.dense_directory()
        def refused(code, model, *expected):
            self.write_job("refused", steps=1, options='indexer = "warmup"', model=model)
            for command in ([], ["check"]):
                result = lfrun(*command, self.folder / "refused.toml")
                self.assertEqual(result.returncode, code, result.stderr)
                for words in expected:
                    self.assertIn(words, result.stderr)
        config = json.loads((self.folder / "config.json").read_text())
        (self.folder / "edited").mkdir()
        shutil.copy(self.folder / "v3/model.safetensors", self.folder / "edited")
        (self.folder / "edited/config.json").write_text(json.dumps(config))
        refused(65, 'path = "edited"', "missing", ".indexer.", "model.new_parameters")
        refused(78, self.NEW.replace(".indexer.", ".idnexer."), "matches no parameter", "indexer")
        refused(78, self.NEW.replace('*"]', '*", "*.o_proj.*"]'), '"*.o_proj.*"', "lacks", "remove the pattern")
        refused(78, 'path = "v3"\nconfig = "config.json"', "model.new_parameters")
        refused(78, 'config = "config.json"\nnew_parameters = ["*.indexer.*"]', "no effect without model.path")
        self.write_job("refused", steps=1, options='indexer = "warmup"', model='path = "edited"\nnew_parameters = ["*.indexer.*"]')
        result = lfrun(self.folder / "refused.toml")
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_without_its_indexers_a_model_attends_to_every_row_and_leaves_them_as_they_are(self):
        config = json.loads((self.folder / "config.json").read_text())
        (self.folder / "wide.json").write_text(json.dumps({**config, "index_topk": 1000}))
        off = self.run_job("off", options='indexer = "off"')
        wide = self.run_job("wide", options='indexer = "frozen"', model='config = "wide.json"')
        narrow = self.run_job("narrow", options='indexer = "frozen"')
        for a, b in zip(off, wide, strict=True):
            self.assertAlmostEqual(a["loss"], b["loss"], delta=1e-5 * a["loss"])
            self.assertAlmostEqual(a["grad_norm"], b["grad_norm"], delta=1e-3 * a["grad_norm"])
        self.assertNotEqual([row["loss"] for row in narrow], [row["loss"] for row in wide])
        start = self.run_job("start", steps=1, options='indexer = "off"')
        self.assertNotIn("indexer_kl", json.dumps(start))
        before, after = (read(self.folder / name / "model/model.safetensors") for name in ("start", "off"))
        changed = {n for n in before if before[n] != after[n]}
        self.assertTrue(changed)
        self.assertFalse({n for n in changed if ".indexer." in n})

    def test_a_directory_of_fp8_weights_trains_and_is_written_in_bf16(self):
        self.run_job("made", steps=1)
        directory = self.folder / "fp8"
        directory.mkdir()
        config = json.loads((self.folder / "made/model/config.json").read_text())
        config["quantization_config"] = {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128],
                                         "activation_scheme": "dynamic"}
        (directory / "config.json").write_text(json.dumps(config))
        tensors = {}
        for name, (dtype, shape, data) in read(self.folder / "made/model/model.safetensors").items():
            if not name.endswith("self_attn.o_proj.weight"):
                tensors[name] = (dtype, shape, data)
                continue
            values = struct.unpack(f"<{shape[0] * shape[1]}f", data)
            # Signs and powers of two are enough of E4M3: 0x38 is 1.
            tensors[name] = ("F8_E4M3", shape, bytes(0x38 | (0x80 if v < 0 else 0) for v in values))
            blocks = [(s + 127) // 128 for s in shape]
            tensors[name + "_scale_inv"] = ("F32", blocks, struct.pack(f"<{blocks[0] * blocks[1]}f", *[0.02] * (blocks[0] * blocks[1])))
        header, offset = {"__metadata__": {"format": "pt"}}, 0
        for name, (dtype, shape, data) in sorted(tensors.items()):
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + len(data)]}
            offset += len(data)
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        (directory / "model.safetensors").write_bytes(
            struct.pack("<Q", len(text)) + text + b"".join(tensors[n][2] for n in sorted(tensors)))
        self.run_job("from_fp8", steps=1, model='path = "fp8"', extra='[checkpoint]\nexport_dtype = "bf16"')
        out = read(self.folder / "from_fp8/model/model.safetensors")
        self.assertEqual({dtype for dtype, _, _ in out.values()}, {"BF16"})
        self.assertFalse(any(n.endswith("_scale_inv") for n in out))
        self.assertNotIn("quantization_config", json.loads((self.folder / "from_fp8/model/config.json").read_text()))


if __name__ == "__main__":
    unittest.main()
