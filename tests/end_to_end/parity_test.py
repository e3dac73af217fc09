"""`lfrun parity` on every recorded case, by both generations of config.json, and on numbers that are wrong."""
import pathlib
import shutil
import struct
import json
import sys
import tempfile
import unittest

from internvl_layouts import original_directory, read, text_directory, to_original, write
from tiny_job import Lfrun

build = pathlib.Path(sys.argv.pop(1))
lfrun = Lfrun(build)
REFERENCES = build / "fixtures/references"


def rename_gradients(expected, names, original):
    """Renames "grad.NAME" as the tensor of the same values is called in `original`."""
    by_value = {(tuple(shape), data): name for name, (_, shape, data) in read(original).items()}
    new = {name: by_value[tuple(shape), data] for name, (_, shape, data) in read(names).items()}
    data = expected.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    renamed = {"grad." + new[name[5:]] if name.startswith("grad.") else name: entry for name, entry in header.items()}
    text = json.dumps(renamed).encode()
    text += b" " * (-len(text) % 8)
    expected.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + size:])


def cases_of(pattern):
    """Directories of the models themselves; those of adapters over them stand beside (lora_test.py)."""
    return sorted(path for variant in ("tiny", "odd") for path in REFERENCES.glob(f"{pattern}-{variant}"))


class Parity(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def agree(self, directory, family, *options):
        chosen = ["--family", family] if family else []  # else parity finds the one that takes the config
        result = lfrun("parity", directory, *chosen, "--out", self.folder / "out", *options)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("AdamW steps", result.stdout)
        return result.stdout

    def test_outputs_losses_gradients_and_trajectories_of_all_qwen_cases_agree(self):
        families = cases_of("qwen[23]*_vl*")
        self.assertEqual(len(families), 8)
        for family in families:
            for config in ("config.json", "config_hub.json"):
                with self.subTest(family=family.name, config=config):
                    self.agree(family, "qwen_vl", "--config", config)

    def test_files_that_hold_a_tied_head_too_or_name_tensors_as_the_class_does_are_read_as_transformers_does(self):
        head = {"lm_head.weight": "model.language_model.embed_tokens.weight"}
        renamed = lambda name: ("model.visual." + name[7:] if name.startswith("visual.") else
                                "model.language_model." + name[6:] if name.startswith("model.") else name)
        for case, change in (("qwen3_vl-tiny", lambda tensors: tensors | {copy: tensors[of] for copy, of in head.items()}),
                             ("qwen2_5_vl-tiny", lambda tensors: {renamed(name): tensor for name, tensor in tensors.items()})):
            with self.subTest(case):
                directory = self.folder / f"as_opened_{case}"
                shutil.copytree(REFERENCES / case, directory)
                tensors = change(read(directory / "model.safetensors"))
                self.assertNotEqual(set(tensors), set(read(REFERENCES / case / "model.safetensors")))
                write(tensors, directory / "model.safetensors")
                self.agree(directory, "qwen_vl")

    def test_a_mistake_in_a_config_is_told_by_the_family_that_knows_it_alone(self):
        directory = self.folder / "mistaken"
        shutil.copytree(REFERENCES / "qwen3_vl-tiny", directory)
        config = json.loads((directory / "config.json").read_text())
        config["vision_config"]["out_hidden_size"] += 1
        (directory / "config.json").write_text(json.dumps(config))
        result = lfrun("parity", directory)
        self.assertEqual(result.returncode, 78, result.stdout + result.stderr)
        self.assertIn("lfrun parity: qwen_vl: config.json: vision_config.out_hidden_size: expected ", result.stderr)
        self.assertNotIn("internvl", result.stderr)

    def test_the_family_that_takes_the_config_is_found_among_all_that_are_installed(self):
        for name in ("qwen3_vl_moe-tiny", "internvl3-tiny", "deepseek_v3-tiny", "flux-tiny", "pi05-tiny"):
            with self.subTest(name):
                self.agree(REFERENCES / name, None)
        self.assertEqual(lfrun("parity", self.folder, "--out", self.folder / "out").returncode, 66)

    def test_outputs_losses_gradients_and_trajectories_of_all_internvl_cases_agree(self):
        families = cases_of("internvl*")
        self.assertEqual(len(families), 8)
        for family in families:
            with self.subTest(family=family.name):
                self.agree(family, "internvl")

    def test_outputs_losses_gradients_and_trajectories_of_all_diffusion_cases_agree(self):
        cases = [f"{name}-{variant}" for name in ("flux", "qwen_image", "wan") for variant in ("tiny", "odd")]
        for name in (*cases, "wan-t2v"):  # Wan: image to video, a time for each row, text to video
            with self.subTest(name):
                self.agree(REFERENCES / name, "diffusion")

    def test_velocities_sampled_actions_losses_gradients_and_trajectories_of_all_pi05_cases_agree(self):
        for variant in ("tiny", "odd"):
            with self.subTest(variant=variant):
                result = lfrun("parity", REFERENCES / f"pi05-{variant}", "--family", "pi05", "--out", self.folder / "out")
                self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
                self.assertIn("AdamW steps", result.stdout)
                self.assertRegex(result.stdout, r"train +sampled_actions .* ok")

    def test_wan_cases_agree_in_the_names_of_its_authors_too(self):
        for variant, kind in (("tiny", "i2v"), ("odd", "ti2v"), ("t2v", "t2v")):
            with self.subTest(variant=variant):
                source = REFERENCES / f"wan-{variant}"
                folder = self.folder / variant
                shutil.copytree(source, folder)
                (folder / "model_orig.safetensors").rename(folder / "diffusion_pytorch_model.safetensors")
                (folder / "model.safetensors").unlink()
                hub = json.loads((source / "config.json").read_text())
                config = {"_class_name": "WanModel", "model_type": kind,
                          "patch_size": hub["patch_size"], "dim": hub["num_attention_heads"] * hub["attention_head_dim"],
                          "num_heads": hub["num_attention_heads"], "in_dim": hub["in_channels"], "out_dim": hub["out_channels"],
                          "text_dim": hub["text_dim"], "text_len": 512, "freq_dim": hub["freq_dim"], "ffn_dim": hub["ffn_dim"],
                          "num_layers": hub["num_layers"], "eps": hub["eps"]}
                (folder / "config.json").write_text(json.dumps(config))
                for case in ("main", "ragged"):  # gradients are compared by name: under the authors' ones
                    rename_gradients(folder / case / "expected.safetensors", source / "model.safetensors", source / "model_orig.safetensors")
                self.agree(folder, "diffusion")

    def test_internvl_cases_agree_in_the_layout_of_its_authors_too(self):
        for family in cases_of("internvl*"):
            with self.subTest(family=family.name):
                text = json.loads((family / "config.json").read_text())["text_config"]
                self.assertEqual(to_original(read(family / "model.safetensors"), text), read(family / "model_orig.safetensors"))
                self.agree(original_directory(family, self.folder / family.name), "internvl")

    def test_text_models_agree_on_the_text_of_the_internvl_cases(self):
        for family in cases_of("internvl*"):  # Llama, Qwen2, Qwen3, Qwen3-MoE
            with self.subTest(family=family.name):
                directory = text_directory(family, self.folder / ("text_" + family.name))
                result = lfrun("parity", directory, "--family", "causal_lm", "--out", self.folder / "out")
                self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
                self.assertIn("gradients, worst", result.stdout)

    def test_experts_weighed_by_all_experts_probabilities_agree_whether_the_config_says_so_or_leaves_it_out(self):
        families = cases_of("qwen3_moe")
        self.assertEqual(len(families), 2)
        for family in families:
            self.assertIs(json.loads((family / "config.json").read_text())["norm_topk_prob"], False)
            self.assertNotIn("norm_topk_prob", json.loads((family / "config_hub.json").read_text()))
            for config in ("config.json", "config_hub.json"):
                with self.subTest(family=family.name, config=config):
                    self.agree(family, "causal_lm", "--config", config)

    def test_outputs_routing_losses_gradients_and_trajectories_of_all_deepseek_cases_agree(self):
        families = cases_of("deepseek*")
        self.assertEqual(len(families), 4)
        for family in families:
            for config in ("config.json", "config_hub.json"):
                with self.subTest(family=family.name, config=config):
                    said = self.agree(family, "deepseek", "--config", config)
                    if "v32" in family.name:  # what the indexer of every layer scored and chose is among the outputs
                        self.assertRegex(said, r"full +indexer\.0\.scores .* ok")
                        self.assertRegex(said, r"full +indexer\.2\.selected .* ok")

    def test_the_loss_and_all_gradients_together_agree_in_bf16(self):
        for name, family in (("qwen2_vl-tiny", "qwen_vl"), ("qwen2_5_vl-odd", "qwen_vl"), ("qwen3_vl-tiny", "qwen_vl"),
                             ("internvl25-odd", "internvl"), ("internvl3-tiny", "internvl"), ("pi05-tiny", "pi05"),
                             ("flux-tiny", "diffusion"), ("qwen_image-odd", "diffusion"), ("wan-tiny", "diffusion"), ("wan-odd", "diffusion")):
            with self.subTest(family=name):
                result = lfrun("parity", REFERENCES / name, "--dtype", "bf16", "--family", family, "--out", self.folder)
                self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_inputs_without_samples_or_with_wrong_values_are_one_error_that_names_file_and_field_once(self):
        def emptied(tensors):
            return {name: (dtype, [0, *shape[1:]], b"") if shape[:1] == [2] else (dtype, shape, data)
                    for name, (dtype, shape, data) in tensors.items()}

        def spoilt(field, value):
            def change(tensors):
                dtype, shape, data = tensors[field]
                return tensors | {field: (dtype, shape, value + data[len(value):])}
            return change

        nan, far = struct.pack("<f", float("nan")), struct.pack("<q", 1 << 40)
        for name, case, field, change in (("flux-tiny", "main", "noisy_latents", emptied), ("qwen_image-odd", "main", "noisy_latents", emptied),
                                          ("wan-tiny", "main", "noisy_latents", emptied), ("wan-odd", "main", "context", spoilt("context", nan)),
                                          ("deepseek_v3-tiny", "lm", "input_ids", spoilt("input_ids", far)),
                                          ("internvl3-tiny", "mixed", "pixel_values", spoilt("pixel_values", nan)),
                                          ("qwen2_5_vl-tiny", "packed", "pixel_values", spoilt("pixel_values", nan)),
                                          ("pi05-tiny", "train", "actions", spoilt("actions", nan))):
            with self.subTest(name):
                wrong = self.folder / name
                shutil.copytree(REFERENCES / name, wrong)
                inputs = wrong / case / "inputs.safetensors"
                write(change(read(inputs)), inputs)
                result = lfrun("parity", wrong, case, "--out", self.folder / "out")
                self.assertEqual(result.returncode, 65, result.stdout + result.stderr)
                errors = [line for line in result.stderr.splitlines() if line.startswith("E ")]
                self.assertEqual(len(errors), 1, result.stderr)
                self.assertEqual(errors[0].count("inputs.safetensors"), 1)
                self.assertIn(f"field {field}: expected ", errors[0])

    def test_one_wrong_number_among_the_expected_ones_is_a_miss_and_exit_1(self):
        wrong = self.folder / "wrong"
        shutil.copytree(REFERENCES / "qwen3_vl-tiny", wrong)
        file = wrong / "packed/expected.safetensors"
        data = bytearray(file.read_bytes())
        size = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8:8 + size])
        name = max((n for n in header if n.startswith("grad.")), key=lambda n: header[n]["data_offsets"][1] - header[n]["data_offsets"][0])
        at = 8 + size + header[name]["data_offsets"][0]
        data[at:at + 4] = struct.pack("<f", struct.unpack("<f", data[at:at + 4])[0] + 1.0)
        file.write_bytes(bytes(data))
        result = lfrun("parity", wrong, "--family", "qwen_vl", "--out", self.folder / "out")
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertIn("MISS", result.stdout)
        self.assertIn(name[5:], result.stdout)

    def test_a_directory_without_meta_json_is_compared_and_one_whose_meta_json_is_wrong_is_refused_by_its_place(self):
        bare = self.folder / "bare"
        shutil.copytree(REFERENCES / "qwen3_vl-tiny", bare)
        meta = json.loads((bare / "meta.json").read_text())
        (bare / "meta.json").unlink()
        result = lfrun("parity", bare, "--family", "qwen_vl", "--out", self.folder / "out")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("loss over 5 AdamW steps", result.stdout)  # the fixtures' settings are the default
        case = next(iter(meta["cases"]))
        meta["cases"][case]["adamw"].pop("lr")
        for text, told in (("{", "meta.json: expected"), (json.dumps(meta), f"meta.json: cases.{case}: expected")):
            (bare / "meta.json").write_text(text)
            result = lfrun("parity", bare, "--family", "qwen_vl", "--out", self.folder / "out")
            self.assertEqual(result.returncode, 65, result.stdout + result.stderr)
            self.assertIn(told, result.stderr)
        meta["cases"] = {"gone": {}}
        (bare / "meta.json").write_text(json.dumps(meta))
        result = lfrun("parity", bare, "--family", "qwen_vl")
        self.assertEqual(result.returncode, 66, result.stdout + result.stderr)
        self.assertIn("meta.json: expected the folder ", result.stderr)
        (bare / "meta.json").unlink()
        shutil.copytree(bare / case, self.folder / "halved" / case)
        for file in ("config.json", "model.safetensors"):
            shutil.copy(bare / file, self.folder / "halved")
        (self.folder / "halved" / case / "inputs.safetensors").unlink()
        result = lfrun("parity", self.folder / "halved", "--family", "qwen_vl")
        self.assertEqual(result.returncode, 66, result.stdout + result.stderr)
        self.assertIn(f"{case}/expected.safetensors: expected inputs.safetensors beside it", result.stderr)
        result = lfrun("parity", bare, "nosuch", "--family", "qwen_vl")
        self.assertEqual(result.returncode, 66, result.stdout + result.stderr)
        self.assertIn("nosuch: expected one of the cases in", result.stderr)
        self.assertIn(case, result.stderr)


if __name__ == "__main__":
    unittest.main()
