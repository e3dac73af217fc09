"""PI0.5 through the whole launcher: directories in every layout, what config.json says, adapters, broken weights."""
import array
import json
import pathlib
import shutil
import struct
import sys
import tempfile
import unittest

from internvl_layouts import read, write
from tiny_job import Lfrun, metrics

build = pathlib.Path(sys.argv.pop(1))
lfrun = Lfrun(build)
REFERENCES = build / "fixtures/references"
PUSHT = pathlib.Path(__file__).resolve().parents[1] / "fixtures/robot/pusht"
CAMERAS = ["observation.images.top", "observation.images.wrist"]
STILL = ["job.steps=1", "optimizer.learning_rate=0"]
TOWER, PREFIX = "paligemma_with_expert.paligemma.model.vision_tower.", "paligemma_with_expert.paligemma."


def write_tokenizer(folder):
    """Of the prompts' letters, since the fixtures' models have 77 words; the bytes that the layout asks for come after them."""
    letters = "\n▁abcdefghijklmnopqrstuvwxyzASTO0123456789:,;-."
    bytes_of_the_layout = [f"<0x{byte:02X}>" for byte in range(256)]
    vocab = {text: i for i, text in enumerate(["<pad>", "<eos>", "<bos>", "<unk>", *letters, *bytes_of_the_layout])}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "pre_tokenizer": None, "post_processor": None,
        "added_tokens": [{"id": i, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                          "special": True} for text, i in list(vocab.items())[:4]],
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                                                     {"type": "ByteFallback"}, {"type": "Fuse"}]},
        "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": True, "byte_fallback": True, "ignore_merges": False, "vocab": vocab, "merges": []}}))


def bf16(value):
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16  # to the nearest, ties to the even one


def renamed(tensors, change):
    return {change(name): tensor for name, tensor in tensors.items()}


# As different writers call the same tensors (plugins/models/pi05/README.md).
LAYOUTS = {
    "openpi": lambda t: t,
    "lerobot": lambda t: renamed(t, lambda n: "model." + n),
    "later transformers": lambda t: renamed(t, lambda n: "model." + n.replace("vision_tower.vision_model.", "vision_tower.")),
    "table by its own name": lambda t: renamed(t, lambda n: n.replace(
        "paligemma.lm_head.weight", "paligemma.model.language_model.embed_tokens.weight")),
    "lerobot, which unties table and head": lambda t: {n: x for name, x in t.items() for n in (
        [name, name.replace("paligemma.lm_head", "paligemma.model.language_model.embed_tokens")] if name.endswith("paligemma.lm_head.weight")
        else [name])},
    "without the head that nothing uses": lambda t: {n: x for n, x in t.items() if "gemma_expert.lm_head" not in n},
}


class Pi05(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        write_tokenizer(cls.folder / "tokenizer")
        cls.job = cls.folder / "job.toml"
        cls.job.write_text(f"""
[job]
seed = 3
steps = 4
[launch]
threads = 1
[model]
family = "pi05"
tokenizer = "tokenizer"
[model.options]
cameras = {json.dumps(CAMERAS)}
[data]
path = "{PUSHT}"
max_tokens = 400
micro_batches = 1
[optimizer]
learning_rate = 1e-3
[schedule]
name = "constant"
[precision]
compute = "fp32"
[metrics]
seconds = 0.01
""")

    def model(self, name, variant="tiny", layout=lambda t: t, **fields):
        """A directory of the fixture's weights in another layout, with `fields` in its config.json."""
        source, made = REFERENCES / f"pi05-{variant}", self.folder / name
        made.mkdir()
        config = json.loads((source / "config.json").read_text()) | fields
        (made / "config.json").write_text(json.dumps(config, indent=2))
        write(layout(read(source / "model.safetensors")), made / "model.safetensors")
        return made

    def run_job(self, name, model, *sets):
        run = self.folder / f"run_{name}"
        words = [word for item in (f"job.output={run}", f"model.path={model}", *sets) for word in ("--set", item)]
        return run, lfrun(self.job, *words)

    def train(self, name, model, *sets):
        run, result = self.run_job(name, model, *sets)
        self.assertEqual(result.returncode, 0, result.stderr)
        return run

    def changed(self, model, run):
        before, after = read(model / "model.safetensors"), read(run / "model/model.safetensors")
        self.assertEqual(before.keys(), after.keys())
        return {name for name in before if before[name] != after[name]}

    def assert_same_files(self, one, other):
        files = lambda folder: {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
        ours, theirs = files(one), files(other)
        theirs.pop(pathlib.Path("stats.json"))  # of the job's data
        self.assertEqual(ours.keys(), theirs.keys())
        for name in ours:
            self.assertTrue(ours[name] == theirs[name], name)

    def test_a_directory_that_was_not_trained_is_saved_byte_for_byte_in_every_layout(self):
        for variant in ("tiny", "odd"):
            for number, (layout, change) in enumerate(LAYOUTS.items()):
                with self.subTest(f"{variant}, {layout}"):
                    name = f"layout_{variant}_{number}"
                    model = self.model(name, variant, change)
                    # What lerobot puts beside the model.
                    (model / "policy_preprocessor.json").write_text('{"name": "policy_preprocessor", "steps": []}\n')
                    write({"action.mean": ("F32", [1], b"\0\0\0\0")}, model / "policy_preprocessor_step_5_normalizer_processor.safetensors")
                    (model / "train_config.json").write_text("{}")
                    (model / "README.md").write_text("a card\n")
                    run = self.train(name, model, *STILL)
                    self.assert_same_files(model, run / "model")

    def test_a_directory_in_several_files_is_saved_byte_for_byte(self):
        model = self.model("sharded", layout=LAYOUTS["lerobot"])
        tensors = read(model / "model.safetensors")
        names = sorted(tensors)
        parts = {"model-00001-of-00002.safetensors": names[::2], "model-00002-of-00002.safetensors": names[1::2]}
        for file, own in parts.items():
            write({name: tensors[name] for name in own}, model / file)
        (model / "model.safetensors").unlink()
        index = {"metadata": {"total_size": sum(len(t[2]) for t in tensors.values())},
                 "weight_map": {name: file for file, own in parts.items() for name in own}}
        (model / "model.safetensors.index.json").write_text(json.dumps(index))
        self.assert_same_files(model, self.train("sharded", model, *STILL) / "model")

    def test_statistics_that_were_trained_with_are_saved_where_lerobots_processors_read_them(self):
        pair = lambda low, high: ("F32", [2], array.array("f", [low, high]).tobytes())
        model = self.model("processed")
        step = lambda name, **more: {"registry_name": name, "config": {"norm_map": {"ACTION": "QUANTILES", "STATE": "QUANTILES"}}, **more}
        state = "policy_preprocessor_step_1_normalizer_processor.safetensors"
        (model / "policy_preprocessor.json").write_text(json.dumps(
            {"name": "policy_preprocessor", "steps": [{"registry_name": "to_batch_processor", "config": {}},
                                                      step("normalizer_processor", state_file=state)]}))
        (model / "policy_postprocessor.json").write_text(json.dumps(
            {"name": "policy_postprocessor", "steps": [step("unnormalizer_processor")]}))
        write({"action.q01": pair(1, 1), "action.max": pair(2, 2), "observation.other.q01": pair(5, 5)}, model / state)
        data = json.loads((PUSHT / "meta/stats.json").read_text())
        run = self.train("processed", model, *STILL, "model.options.normalization_floor=3")
        made = "policy_postprocessor_step_0_unnormalizer_processor.safetensors"
        exported = self.folder / "processed_again"
        result = lfrun("export", run, exported)
        self.assertEqual(result.returncode, 0, result.stderr)
        for folder in (run / "model", exported):
            stats = json.loads((folder / "stats.json").read_text())
            for feature in ("action", "observation.state"):
                for number in range(2):
                    low, deviation = data[feature]["q01"][number], data[feature]["std"][number]
                    self.assertAlmostEqual(stats[feature]["q01"][number], low, delta=1e-4)
                    self.assertAlmostEqual(stats[feature]["q99"][number], low + 3 * deviation, delta=1e-4)
                for name in (state, made):
                    saved = array.array("f", read(folder / name)[feature + ".q99"][2])
                    self.assertEqual(list(saved), stats[feature]["q99"])
            self.assertNotIn("action.max", read(folder / state))
            self.assertEqual(read(folder / state)["observation.other.q01"], pair(5, 5))
            steps = json.loads((folder / "policy_postprocessor.json").read_text())["steps"]
            self.assertEqual(steps[0]["state_file"], made)
            self.assertEqual((folder / "policy_preprocessor.json").read_bytes(), (model / "policy_preprocessor.json").read_bytes())

    def test_of_two_directories_statistics_are_saved_where_they_share_them_and_else_a_warning_says_so(self):
        model, second = self.model("twice"), self.folder / "second_pusht"
        shutil.copytree(PUSHT, second)
        both = f"data.path={json.dumps([str(PUSHT), str(second)])}"
        run, result = self.run_job("own_statistics", model, *STILL, both)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("set model.options.statistics", result.stderr)
        self.assertFalse((run / "model/stats.json").exists())
        run, result = self.run_job("shared_statistics", model, *STILL, both, f'model.options.statistics="{PUSHT}/meta/stats.json"')
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("set model.options.statistics", result.stderr)
        self.assertIn("action", json.loads((run / "model/stats.json").read_text()))

    def test_what_is_trained_changes_all_that_gets_a_gradient_and_nothing_else(self):
        model = self.model("whole")
        changed = self.changed(model, self.train("whole", model))
        untouched = set(read(model / "model.safetensors")) - changed
        no_gradient = set(json.loads((REFERENCES / "pi05-tiny/meta.json").read_text())["cases"]["train"]["no_grad"])
        # Rows of the table that no prompt has are in changed tensors; queries of the last prefix layer decay only.
        self.assertEqual(untouched, no_gradient)

    def test_in_bf16_updates_too_small_for_bf16_add_up(self):
        # A step of bf16 near the weights, 2^-8 of them, is a hundred times and more what all ten updates come to; master
        # weights in bf16 would stay where they are.
        floats = lambda tensor: array.array("f", tensor[2])
        model = self.model("small_updates")
        run = self.train("small_updates", model, "precision.compute=bf16", "job.steps=10", "optimizer.learning_rate=1e-7",
                         "optimizer.weight_decay=0")
        before, after = read(model / "model.safetensors"), read(run / "model/model.safetensors")
        name = next(name for name in sorted(before) if name.endswith("gemma_expert.model.layers.0.mlp.up_proj.weight"))
        pairs = list(zip(floats(before[name]), floats(after[name]), strict=True))
        large = [(a, b) for a, b in pairs if abs(a) > 0.01]
        self.assertGreater(len(large), len(pairs) // 4)
        moved = [abs(b - a) for a, b in large]
        self.assertGreater(sum(moved) / len(moved), 2e-7)  # of 1e-6 at most
        self.assertLess(max(moved), 2e-6)
        self.assertGreater(sum(bf16(a) == bf16(b) for a, b in large), 0.9 * len(large))

    def test_a_head_that_lerobot_has_untied_is_carried_and_the_table_beside_it_trained(self):
        model = self.model("untied", layout=LAYOUTS["lerobot, which unties table and head"])
        run, tied = self.train("untied", model), self.train("tied", self.model("tied"))
        self.assertEqual([row["loss"] for row in metrics(run)], [row["loss"] for row in metrics(tied)])
        changed = self.changed(model, run)
        self.assertNotIn(PREFIX + "lm_head.weight", changed)
        self.assertIn(PREFIX + "model.language_model.embed_tokens.weight", changed)

    def test_the_moving_average_is_that_of_the_weights_after_each_update_and_opens_like_them(self):
        floats = lambda tensor: array.array("f", tensor[2])
        model = self.model("averaged", freeze_vision_encoder=True)
        source = read(model / "model.safetensors")
        average = {name: list(floats(tensor)) for name, tensor in source.items()}
        for steps in (1, 2, 3):
            run = self.train(f"averaged_{steps}", model, f"job.steps={steps}", "ema.decay=0.75")
            for name, tensor in read(run / "model/model.safetensors").items():
                average[name] = [a + 0.25 * (value - a) for a, value in zip(average[name], floats(tensor))]
        kept = read(run / "model_ema/model.safetensors")
        self.assertEqual(kept.keys(), source.keys())
        for name, tensor in kept.items():
            for a, b in zip(average[name], floats(tensor), strict=True):
                self.assertLessEqual(abs(a - b), 1e-6 * max(1, abs(a)), name)  # f32 three times rounded
        self.assertTrue(all(kept[name] == source[name] for name in kept if name.startswith(TOWER)))
        opened = metrics(self.train("opens_average", run / "model_ema", *STILL))[0]["loss"]
        self.assertNotEqual(opened, metrics(self.train("opens_last", run / "model", *STILL))[0]["loss"])

    def test_what_lerobots_config_freezes_is_frozen_without_the_job_saying_so(self):
        model = self.model("expert", train_expert_only=True)
        changed = self.changed(model, self.train("expert", model))
        self.assertTrue(changed)
        self.assertFalse([name for name in changed if name.startswith(PREFIX)])
        model = self.model("tower", freeze_vision_encoder=True)
        changed = self.changed(model, self.train("tower", model))
        self.assertFalse([name for name in changed if name.startswith(TOWER)])
        self.assertTrue([name for name in changed if ".multi_modal_projector." in name])
        self.assertTrue([name for name in changed if ".language_model." in name])

    def test_a_job_that_contradicts_the_config_is_refused(self):
        model = self.model("says", normalization_mapping={"STATE": "QUANTILES", "ACTION": "MEAN_STD"}, use_relative_actions=True)
        run = self.train("says", model, "job.steps=2")
        self.assertEqual(len(metrics(run)), 2)
        for option, field in (('normalization="quantiles"', "normalization_mapping: quantiles for states, mean_std for actions"),
                              ("relative_actions=false", "use_relative_actions: true")):
            _, result = self.run_job("contradicts", model, f"model.options.{option}")
            self.assertEqual(result.returncode, 78, result.stderr)
            self.assertIn(field, result.stderr)

    def test_cameras_come_in_the_order_of_the_configs_text(self):
        camera = {"type": "VISUAL", "shape": [3, 96, 96]}
        loss = lambda name, order, cameras: metrics(self.train(name, self.model(name, input_features={key: camera for key in order}),
                                                               f"model.options.cameras={json.dumps(cameras)}", *STILL))[0]["loss"]
        backwards = CAMERAS[::-1]
        named = loss("named", backwards, [])
        self.assertEqual(named, loss("told", CAMERAS, backwards))
        self.assertNotEqual(named, loss("forwards", CAMERAS, []))

    def test_augmented_pictures_change_the_loss_and_a_repeated_run_does_not(self):
        model = self.model("augments")
        curve = lambda name, *sets: [row["loss"] for row in metrics(self.train(name, model, *sets))]
        plain, one = curve("plain"), curve("augments", "model.options.augment=true")
        self.assertNotEqual(plain[0], one[0])
        self.assertEqual(curve("augments_again", "model.options.augment=true"), one)
        self.assertNotEqual(curve("smooth", 'model.options.resize="openpi"')[0], plain[0])

    def test_adapters_of_every_component_learn_and_merge(self):
        model = self.model("adapted")
        lora = ["lora.rank=4", "lora.alpha=8", 'lora.targets=["vision", "language", "action"]']
        run = self.train("adapts", model, *lora, "job.steps=12", "optimizer.learning_rate=1e-2")
        self.assertEqual(metrics(run)[0]["loss"], metrics(self.train("unadapted", model, *STILL))[0]["loss"])
        tensors = read(run / "adapter/adapter_model.safetensors")
        modules = {name[len("base_model.model."):-len(".lora_A.weight")] for name in tensors if name.endswith(".lora_A.weight")}
        # By lerobot's names of PI05Policy's modules. Of the last prefix layer keys and values count; queries are one map with them.
        joint = "model.paligemma_with_expert."
        for module in (joint + "paligemma.model.vision_tower.vision_model.encoder.layers.1.self_attn.k_proj",
                       joint + "paligemma.model.vision_tower.vision_model.encoder.layers.0.mlp.fc2",
                       joint + "paligemma.model.multi_modal_projector.linear",
                       joint + "paligemma.model.language_model.layers.1.self_attn.v_proj",
                       joint + "paligemma.model.language_model.layers.0.mlp.gate_proj",
                       joint + "gemma_expert.model.layers.1.self_attn.q_proj", joint + "gemma_expert.model.layers.0.mlp.down_proj",
                       joint + "gemma_expert.model.layers.0.input_layernorm.dense", joint + "gemma_expert.model.norm.dense",
                       "model.action_in_proj", "model.time_mlp_in", "model.time_mlp_out", "model.action_out_proj"):
            self.assertIn(module, modules)
        self.assertNotIn(joint + "paligemma.model.language_model.layers.1.mlp.gate_proj", modules)
        zero = {name for name, (_, _, data) in tensors.items() if name.endswith(".lora_B.weight") and not any(data)}
        self.assertEqual(zero, {f"base_model.model.{joint}paligemma.model.language_model.layers.1.self_attn.q_proj.lora_B.weight"})
        self.assertEqual((run / "adapter/stats.json").read_bytes(), (run / "model/stats.json").read_bytes())
        applied = self.train("applied", model, f"lora.path={run / 'adapter'}", *STILL)
        merged = self.train("merged", run / "model", *STILL)
        self.assertNotEqual(metrics(applied)[0]["loss"], metrics(run)[0]["loss"])
        self.assertAlmostEqual(metrics(applied)[0]["loss"], metrics(merged)[0]["loss"], delta=2e-6)

    def test_weights_that_lack_a_tensor_have_another_shape_or_an_unknown_one_are_refused_by_its_name(self):
        name = PREFIX + "model.language_model.layers.0.self_attn.k_proj.weight"

        def lacking(tensors):
            return {n: t for n, t in tensors.items() if n != name}

        def reshaped(tensors):
            dtype, (rows, columns), data = tensors[name]
            return tensors | {name: (dtype, [columns, rows], data)}

        for kind, layout in (("lacking", lacking), ("reshaped", reshaped)):
            _, result = self.run_job(kind, self.model(kind, layout=layout))
            self.assertNotEqual(result.returncode, 0)
            self.assertIn(name, result.stderr)
            self.assertEqual([line[:2] for line in result.stderr.splitlines() if line.startswith("E ")], ["E "], result.stderr)

    def test_a_config_that_changes_the_maths_in_a_way_that_is_not_built_is_refused_by_the_fields_name(self):
        for field, value in (("n_obs_steps", 2), ("use_delta_joint_actions_aloha", True), ("use_peft", True),
                             ("normalization_mapping", {"VISUAL": "MEAN_STD"}), ("time_sampling_beta_beta", 2.0)):
            with self.subTest(field):
                _, result = self.run_job("unbuilt", self.model(f"unbuilt_{field}", **{field: value}))
                self.assertEqual(result.returncode, 78, result.stderr)
                self.assertIn(f"config.json: {field}", result.stderr)


if __name__ == "__main__":
    unittest.main()
