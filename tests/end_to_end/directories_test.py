"""Directories of InternVL, DeepSeek and text models in and out: fixtures in every layout, whole and in parts; weights that do not fit."""
import json
import pathlib
import re
import sys
import tempfile
import unittest

from internvl_layouts import read, write
from tiny_job import Lfrun, deepseek_tokenizer, metrics, write_job

build = pathlib.Path(sys.argv.pop(1))
lfrun = Lfrun(build)
REFERENCES = build / "fixtures/references"
WORDS = 300  # of the jobs' tokenizers, with room: the fixtures' own models have fewer
TABLES = ("embed_tokens.weight", "tok_embeddings.weight", "lm_head.weight", "language_model.output.weight", "shared_head.head.weight")
HUB = {"internvl": ("config_hub.json", "model_orig.safetensors"), "deepseek": ("config_hub.json", "model.safetensors")}
STILL = ["job.steps=1", "optimizer.learning_rate=0"]


def grown(tensor, rows):
    dtype, (own, columns), data = tensor
    more = bytes.fromhex("0000803d") * ((rows - own) * columns)  # 1/16
    return dtype, [rows, columns], data + more


def rounded(tensor):
    """f32 whose lower half is 0 as bf16."""
    dtype, shape, data = tensor
    out = bytearray(len(data) // 2)
    out[0::2], out[1::2] = data[2::4], data[3::4]
    return "BF16", shape, bytes(out)


class Directories(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        data = {"max_tokens": 512, "micro_batches": 1}
        cls.jobs = {"internvl": write_job(cls.folder / "internvl", samples=8, model={"family": "internvl"},
                                          data=data | {"image_max_pixels": 3136}),
                    # The routers' bias moves by the load, whatever the learning rate.
                    "deepseek": write_job(cls.folder / "deepseek", model={"family": "deepseek"}, data=data,
                                          **{"model.options": {"bias_update_rate": 0}})}
        cls.jobs["causal_lm"] = write_job(cls.folder / "causal_lm", model={"family": "causal_lm"}, data=data | {"chat_template": "chatml"})
        words = ("red", "green", "a brush and its path", "blue")
        turns = lambda i: [{"role": "user", "content": f"Say {i}"}, {"role": "assistant", "content": words[i % len(words)]}]
        (cls.folder / "causal_lm/data/train.jsonl").write_text("".join(json.dumps({"messages": turns(i)}) + "\n" for i in range(12)))
        (cls.folder / "deepseek/tokenizer/tokenizer.json").write_text(json.dumps(deepseek_tokenizer()))
        (cls.folder / "deepseek/data/train.jsonl").write_text("".join(json.dumps({"text": f"{i}: the same words"}) + "\n" for i in range(8)))

    def model(self, fixture, family, hub, parts, half):
        """A directory of the fixture's weights for the job's tokenizer: in the authors' names, in several files, in bf16."""
        config_name, weights_name = HUB[family] if hub else ("config.json", "model.safetensors")
        config = json.loads((REFERENCES / fixture / config_name).read_text())
        tensors = read(REFERENCES / fixture / weights_name)
        if family == "causal_lm":  # the language model by itself
            config, start = config["text_config"], "language_model."
            tensors = {name[len(start):]: tensor for name, tensor in tensors.items() if name.startswith(start)}
        for part in (config, config.get("text_config", {}), config.get("llm_config", {})):
            for name, value in (("vocab_size", WORDS), ("image_token_id", 266), ("img_context_token_id", 266)):
                if name in part:
                    part[name] = value
        tensors = {name: grown(tensor, WORDS) if name.endswith(TABLES) else tensor
                   for name, tensor in tensors.items()}
        if half:
            tensors = {name: rounded(tensor) for name, tensor in tensors.items()}
        model = self.folder / f"{family}_{fixture}_{hub}_{parts}_{half}"
        model.mkdir()
        (model / "config.json").write_text(json.dumps(config, indent=2))
        (model / "generation_config.json").write_text('{"eos_token_id": 1}')
        (model / "README.md").write_text("a card\n")
        names = sorted(tensors)
        if parts == 1:
            write(tensors, model / "model.safetensors")
        else:
            files = {f"model-{i + 1:05}-of-{parts:05}.safetensors": names[i::parts] for i in range(parts)}
            for file, own in files.items():
                write({name: tensors[name] for name in own}, model / file)
            index = {"metadata": {"total_size": sum(len(data) for _, _, data in tensors.values())},
                     "weight_map": {name: file for file, own in files.items() for name in own}}
            (model / "model.safetensors.index.json").write_text(json.dumps(index, indent=2))
        return model

    def run_job(self, family, model, *sets):
        run = self.folder / f"run_{model.name}"
        words = [word for item in (f"job.output={run}", f"model.path={model}", 'model.config=""', *sets) for word in ("--set", item)]
        return run, lfrun(self.jobs[family], *words)

    def test_what_was_not_trained_is_written_back_byte_for_byte(self):
        internvl = ("internvl25", "internvl3", "internvl35", "internvl35_moe")
        for family, fixtures in (("internvl", internvl), ("causal_lm", internvl), ("deepseek", ("deepseek_v3", "deepseek_v32"))):
            for fixture in fixtures:
                for hub in (False, True) if family in HUB else (False,):
                    for variant, parts, half in (("tiny", 2, True), ("odd", 1, False)):
                        with self.subTest(f"{fixture}-{variant}", hub=hub, parts=parts, half=half):
                            model = self.model(f"{fixture}-{variant}", family, hub, parts, half)
                            run, result = self.run_job(family, model, *STILL)
                            self.assertEqual(result.returncode, 0, result.stderr)
                            files = lambda folder: {path.name: path.read_bytes() for path in folder.iterdir()}
                            ours, theirs = files(run / "model"), files(model)
                            self.assertEqual(sorted(ours), sorted(theirs))
                            for name in theirs:
                                self.assertTrue(ours[name] == theirs[name], name)

    def test_weights_that_are_missing_of_another_shape_or_unknown_are_one_error_that_names_them(self):
        for family, fixture, hub, name in (("internvl", "internvl3-tiny", True, "mlp1.1.weight"),
                                           ("internvl", "internvl35_moe-tiny", False, "language_model.model.layers.0.mlp.experts.1.up_proj.weight"),
                                           ("deepseek", "deepseek_v3-tiny", False, "model.layers.1.self_attn.kv_b_proj.weight"),
                                           ("deepseek", "deepseek_v32-tiny", True, "model.layers.1.self_attn.indexer.wq_b.weight")):
            whole = self.model(fixture, family, hub, 1, False)
            tensors = read(whole / "model.safetensors")
            name = next(own for own in tensors if own.endswith(name))
            dtype, shape, data = tensors[name]
            rest = {key: tensor for key, tensor in tensors.items() if key != name}
            novel = "model.layers.0.novel.weight"
            for change, made, told in (("missing", rest, name), ("shape", rest | {name: (dtype, [2 * shape[0], *shape[1:]], 2 * data)}, name),
                                       ("unknown", tensors | {novel: tensors[name]}, novel)):
                with self.subTest(fixture, change=change):
                    write(made, whole / "model.safetensors")
                    _, result = self.run_job(family, whole)
                    self.assertEqual(result.returncode, 65, result.stderr)
                    # Every line of a message begins with its level; those that go on are indented after it.
                    errors = [line for line in result.stderr.splitlines() if re.match(r"E \S", line)]
                    self.assertEqual(len(errors), 1, result.stderr)
                    self.assertIn(told, result.stderr)

    def test_text_models_train_along_the_trajectory_of_the_same_decoder_in_internvl(self):
        # Whose own trajectory is transformers' (parity_test.py).
        for fixture in ("internvl25-tiny", "internvl3-odd", "internvl35-tiny", "internvl35_moe-odd"):
            with self.subTest(fixture):
                curves = []
                for family in ("causal_lm", "internvl"):
                    model = self.model(fixture, family, False, 3, False)
                    run, result = self.run_job(family, model, f"data.path={self.folder / 'causal_lm/data/train.jsonl'}", "job.steps=5",
                                               "optimizer.learning_rate=1e-2", 'model.freeze=["vision_tower.*", "multi_modal_projector.*"]' if
                                               family == "internvl" else "model.freeze=[]")
                    self.assertEqual(result.returncode, 0, result.stderr)
                    curves.append([(row["loss"], row["grad_norm"]) for row in metrics(run)])
                self.assertEqual(len(curves[0]), 5)
                self.assertLess(curves[0][-1][0], curves[0][0][0])
                for ours, theirs in zip(*curves, strict=True):
                    for a, b in zip(ours, theirs, strict=True):
                        self.assertAlmostEqual(a, b, delta=2e-6 * abs(b))

    def test_adapters_of_deepseek_learn_are_opened_again_and_merged(self):
        for fixture, targets in (("deepseek_v3-tiny", ["*.q_b_proj", "*.o_proj", "*.down_proj"]),
                                 ("deepseek_v32-tiny", ["*.kv_a_proj_with_mqa", "*.indexer.wq_b", "*.gate_proj"])):
            with self.subTest(fixture):
                model = self.model(fixture, "deepseek", False, 1, True)

                def train(name, start, *sets):
                    run = self.folder / f"{fixture}_{name}"
                    _, result = self.run_job("deepseek", start, f"job.output={run}", *sets)
                    self.assertEqual(result.returncode, 0, result.stderr)
                    return run

                loss = lambda run: metrics(run)[0]["loss"]
                lora = ["lora.rank=4", "lora.alpha=16", f"lora.targets={json.dumps(targets)}"]
                plain = train("plain", model, *STILL)
                run = train("learns", model, *lora, "job.steps=4", "optimizer.learning_rate=1e-2", "checkpoint.export_dtype=fp32")
                self.assertEqual(loss(run), loss(plain))
                applied = train("applied", model, f"lora.path={run / 'adapter'}", *STILL)
                merged = train("merged", run / "model", *STILL)
                self.assertNotEqual(loss(applied), loss(plain))
                self.assertAlmostEqual(loss(applied), loss(merged), delta=2e-6)
                for file in ("adapter_model.safetensors", "adapter_config.json"):
                    self.assertEqual((applied / "adapter" / file).read_bytes(), (run / "adapter" / file).read_bytes(), file)
                names = set(read(run / "adapter/adapter_model.safetensors"))
                for target in targets:
                    self.assertTrue([name for name in names if f"{target[1:]}.lora_A" in name], target)


if __name__ == "__main__":
    unittest.main()
