"""Low-rank adapters: against peft's recorded numbers, merged and applied, resumed, saved and opened; rates by pattern."""
import json
import math
import pathlib
import shutil
import sys
import tempfile
import unittest

from internvl_layouts import read
from tiny_job import Lfrun, floats, metrics, write_job

build = pathlib.Path(sys.argv.pop(1))
lfrun = Lfrun(build)
REFERENCES = build / "fixtures/references"

TARGETS = ["*.q_proj", "*.down_proj", "vision"]
LORA = {"rank": 4, "alpha": 8, "targets": TARGETS}
STILL = ["job.steps=1", "optimizer.learning_rate=0"]
COMPOSED = {
    "projector": {"merge": 2},
    "vision": {"type": "intern_vit", "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 2,
               "image_size": 28, "patch_size": 7, "attention_bias": True},
    "decoder": {"type": "qwen3", "vocab_size": 272, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
                "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
                "tie_word_embeddings": False}}

WINDOWED = {  # another tower, another decoder
    "projector": {"merge": 2},
    "vision": {"type": "qwen2_5_vit", "depth": 2, "hidden_size": 24, "intermediate_size": 40, "num_heads": 2, "window_size": 112,
               "patch_size": 14, "temporal_patch_size": 2,
               "fullatt_block_indexes": [1]},
    "decoder": {"type": "llama", **{key: value for key, value in COMPOSED["decoder"].items() if key not in ("type", "head_dim")}},
    "tokens": {"image_token_id": 262, "video_token_id": 263, "vision_start_token_id": 259, "vision_end_token_id": 260}}


def toml(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(toml(item) for item in value) + "]"
    return json.dumps(value)


def lora(**options):
    return [f"lora.{key}={toml(value)}" for key, value in options.items()]


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.scratch.cleanup)
        cls.folder = pathlib.Path(cls.scratch.name)
        cls.job = write_job(cls.folder / "job")
        cls.base = cls.train("base", *STILL) / "model"  # weights as they are initialised

    @classmethod
    def run_job(cls, name, *sets):
        run = cls.folder / name
        return run, lfrun(cls.job, *[word for item in (f"job.output={run}", *sets) for word in ("--set", item)])

    @classmethod
    def train(cls, name, *sets):
        run, result = cls.run_job(name, *sets)
        assert result.returncode == 0, result.stderr
        return run

    @classmethod
    def over(cls, model, name, *sets):
        return cls.train(name, "model.config=''", f"model.path={model}", f"model.tokenizer={model}", *sets)

    def refuse(self, expected, *sets):
        _, result = self.run_job("refused", *sets)
        self.assertEqual(result.returncode, 78, result.stderr)
        for words in expected:
            self.assertIn(words, result.stderr)

    def first_loss(self, run):
        return metrics(run)[0]["loss"]


class Reference(Case):
    def test_outputs_losses_adapter_gradients_and_trajectories_equal_those_of_peft(self):
        families = {"qwen2_5_vl": "qwen_vl", "qwen3_vl": "qwen_vl", "internvl3": "internvl", "deepseek_v3": "deepseek",
                    "flux": "diffusion", "wan": "diffusion", "pi05": "pi05"}
        # Tables, heads (tied ones in Qwen) and experts.
        vocabulary = {"qwen2_5_vl": "qwen_vl", "qwen3_vl_moe": "qwen_vl", "internvl35_moe": "internvl", "deepseek_v3": "deepseek"}
        for name, kind, family in [(n, "lora", f) for n, f in families.items()] + [(n, "lora_vocabulary", f) for n, f in vocabulary.items()]:
            with self.subTest(name, kind=kind):
                case = self.folder / f"{name}-{kind}"
                shutil.copytree(REFERENCES / f"{name}-{kind}", case)
                for file in ("config.json", "model.safetensors"):
                    shutil.copy(REFERENCES / f"{name}-tiny" / file, case)
                result = lfrun("parity", case, "--family", family, "--out", self.folder / "out")
                self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
                adapters = json.loads((case / "meta.json").read_text())["adapters"]
                self.assertIn(f"{2 * adapters} gradients, worst", result.stdout)
                self.assertIn("AdamW steps", result.stdout)

    def test_adapters_of_another_model_or_kind_are_refused_by_name(self):
        wrong = [("rank", lambda config: config.update(r=5), "its rank is"), ("dora", lambda c: c.update(use_dora=True), "use_dora"),
                 ("kind", lambda c: c.update(peft_type="IA3"), "IA3"), ("bias", lambda c: c.update(bias="all"), "bias")]
        for name, change, expected in wrong:
            with self.subTest(name):
                adapter = self.folder / f"wrong_{name}"
                shutil.copytree(REFERENCES / "qwen2_5_vl-lora/adapter", adapter)
                config = json.loads((adapter / "adapter_config.json").read_text())
                change(config)
                (adapter / "adapter_config.json").write_text(json.dumps(config))
                _, result = self.run_job("refused", f"lora.path={adapter}")
                self.assertEqual(result.returncode, 65, result.stderr)
                self.assertIn(expected, result.stderr)
        _, result = self.run_job("refused", f"lora.path={REFERENCES / 'flux-lora/adapter'}")
        self.assertEqual(result.returncode, 78, result.stderr)
        self.assertIn("no linear maps of this model", result.stderr)


class Training(Case):
    def test_new_adapters_change_nothing_at_the_first_step_and_then_learn_while_the_base_stays_as_it_is(self):
        run = self.over(self.base, "learns", *lora(**LORA), "job.steps=12", "optimizer.learning_rate=3e-2")
        curve = [row["loss"] for row in metrics(run)]
        self.assertEqual(curve[0], self.first_loss(self.over(self.base, "unadapted", *STILL)))
        self.assertLess(curve[-1], curve[0] - 0.2)
        before, after = read(self.base / "model.safetensors"), read(run / "model/model.safetensors")
        self.assertEqual(before.keys(), after.keys())
        for name in before:
            adapted = name.endswith("weight") and (
                "q_proj" in name or "down_proj" in name or
                name.startswith("visual.") and ("norm" not in name and "ln_q" not in name and "patch_embed" not in name))
            self.assertEqual(before[name] != after[name], adapted, name)

    def test_the_merged_model_gives_the_loss_of_base_and_adapters(self):
        run = self.over(self.base, "merges", *lora(**LORA), "job.steps=6")
        applied = self.over(self.base, "applied", f"lora.path={run / 'adapter'}", *STILL)
        merged = self.over(run / "model", "merged", *STILL)
        self.assertNotEqual(self.first_loss(applied), self.first_loss(run))
        self.assertAlmostEqual(self.first_loss(applied), self.first_loss(merged), delta=2e-6)

    def test_saved_adapters_open_again_and_are_saved_as_the_same_bytes(self):
        groups = [{"targets": ["vision"], "rank": 2, "alpha": 5.0}]
        run = self.over(self.base, "saves", *lora(rank=4, alpha=8, targets=["language"], groups=groups, also_train=["*ln_q*"]),
                        "job.steps=3")
        again = self.over(self.base, "opens", f"lora.path={run / 'adapter'}", 'lora.also_train=["*ln_q*"]', *STILL)
        for file in ("adapter_model.safetensors", "adapter_config.json"):
            self.assertEqual((again / "adapter" / file).read_bytes(), (run / "adapter" / file).read_bytes(), file)
        tensors = read(run / "adapter/adapter_model.safetensors")
        self.assertEqual(tensors["base_model.model.model.visual.blocks.0.attn.qkv.lora_A.weight"][1], [2, 24])
        self.assertEqual(tensors["base_model.model.model.language_model.layers.1.self_attn.v_proj.lora_B.weight"][1], [16, 4])
        self.assertIn("base_model.model.model.visual.merger.ln_q.weight", tensors)
        config = json.loads((run / "adapter/adapter_config.json").read_text())
        self.assertEqual((config["r"], config["lora_alpha"], config["modules_to_save"]), (4, 8, ["model.visual.merger.ln_q"]))
        self.assertEqual(config["rank_pattern"]["model.visual.blocks.0.attn.qkv"], 2)
        frozen = self.over(self.base, "opens_frozen", f"lora.path={run / 'adapter'}", *STILL)
        self.assertEqual(read(frozen / "model/model.safetensors")["visual.merger.ln_q.weight"],
                         read(run / "model/model.safetensors")["visual.merger.ln_q.weight"])

    def test_export_writes_the_merged_model_or_the_adapters_alone(self):
        run = self.over(self.base, "exports", *lora(**LORA), "job.steps=2")
        for option, folder, file in ([], "model", "model.safetensors"), (["--adapter"], "adapter", "adapter_model.safetensors"):
            out = self.folder / f"exported_{folder}"
            result = lfrun("export", run, out, *option)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual((out / file).read_bytes(), (run / folder / file).read_bytes())
        self.assertEqual(json.loads((self.folder / "exported_model/config.json").read_text())["model_type"], "qwen2_5_vl")
        result = lfrun("export", self.base.parent, self.folder / "none", "--adapter")
        self.assertEqual(result.returncode, 64, result.stderr)
        self.assertIn("trained no adapters", result.stderr)

    def test_a_resumed_run_with_dropout_equals_the_straight_one_bit_for_bit(self):
        options = [*lora(**LORA, dropout=0.3), "checkpoint.every_steps=2", "checkpoint.keep=5"]
        straight, parts = self.train("straight", *options), self.train("parts", *options)
        without = self.train("without", *lora(**LORA))
        self.assertNotEqual([row["loss"] for row in metrics(straight)], [row["loss"] for row in metrics(without)])
        for step in (4, 6):
            shutil.rmtree(parts / f"ckpt/step-{step:08}")
        resumed = self.train("parts", *options)
        self.assertEqual([row["loss"] for row in metrics(resumed)], [row["loss"] for row in metrics(straight)])
        file = "adapter/adapter_model.safetensors"
        self.assertEqual((resumed / file).read_bytes(), (straight / file).read_bytes())

    def test_with_fixed_reduction_dropout_is_the_same_bits_on_one_rank_and_on_two(self):
        options = [*lora(**LORA, dropout=0.3), "reduction.mode=fixed", "job.steps=3"]
        one = self.train("fixed1", *options, "data.micro_batches=4")
        two = self.train("fixed2", *options, "data.micro_batches=2", "launch.processes=2")
        file = "adapter/adapter_model.safetensors"
        self.assertEqual((one / file).read_bytes(), (two / file).read_bytes())

    def test_recomputed_layers_draw_the_same_dropout_again(self):
        kept, again = (self.train(f"recompute_{way}", *lora(**LORA, dropout=0.3), "job.steps=3", f"memory.recompute={way}")
                       for way in ("none", "whole"))
        self.assertEqual([row["grad_norm"] for row in metrics(kept)], [row["grad_norm"] for row in metrics(again)])

    def test_adapters_learn_in_bf16(self):
        run = self.over(self.base, "bf16", *lora(**LORA), "precision.compute=bf16", "job.steps=12", "optimizer.learning_rate=3e-2")
        curve = [row["loss"] for row in metrics(run)]
        self.assertLess(curve[-1], curve[0] - 0.2)

    def test_check_counts_what_is_trained_and_what_a_checkpoint_takes(self):
        sets = [word for item in (f"job.output={self.folder / 'counted'}", *lora(rank=4, targets=["*.q_proj"])) for word in ("--set", item)]
        result = lfrun("check", self.job, *sets)
        self.assertEqual(result.returncode, 0, result.stderr)
        trained = 2 * (4 * 32 + 32 * 4)  # two layers, A and B
        self.assertIn(f", {trained} trained", result.stdout)
        self.assertIn(f"2 adapters with {trained} parameters", result.stdout)
        run = self.train("counted", *lora(rank=4, targets=["*.q_proj"]), "job.steps=1")
        bytes_of = lambda name: sum(f.stat().st_size for f in (run / "ckpt").rglob(name))
        self.assertLess(bytes_of("parameters*"), trained * 4 + 1000)
        self.assertGreater(bytes_of("parameters*"), trained * 4)

    def test_patterns_that_adapt_nothing_are_refused_with_what_is_near(self):
        self.refuse(["lora.targets", '"*.q_porj"', "q_proj"], *lora(targets=["*.q_porj"]))
        self.refuse(["lora.targets", "patch_embed", "lora.also_train"], *lora(targets=["*patch_embed*"]))
        self.refuse(["one adapter", "lora.groups: table 1"], *lora(targets=["language"], groups=[{"targets": ["*.q_proj"]}]))
        self.refuse(["has an adapter"], *lora(targets=["*.q_proj"], also_train=["language"]))
        self.refuse(["lora.also_train", "ln_q"], *lora(targets=["*.q_proj"], also_train=["*ln_qq*"]))
        self.refuse(["lora.rank has no effect"], "lora.rank=4")
        self.refuse(["table 1: targets is required"], *lora(groups=[{"rank": 4}]))
        self.refuse(['"rnak" is unknown; did you mean rank?'], *lora(groups=[{"targets": ["vision"], "rnak": 4}]))

    def internvl(self, name, *sets):
        from tiny_job import INTERNVL
        file = self.folder / "internvl.json"
        file.write_text(json.dumps(INTERNVL))
        return self.train(name, "model.family=internvl", f"model.config={file}", *sets)

    def over_internvl(self, model, name, *sets):
        return self.over(model, name, "model.family=internvl", *sets)

    def test_experts_tables_and_heads_are_adapted_by_their_own_names_alone(self):
        base = self.internvl("internvl", *STILL) / "model"
        of = lambda run: {name for name in read(run / "adapter/adapter_model.safetensors") if "experts" in name or "embed" in name or "head" in name}
        plain = self.over_internvl(base, "plain", *lora(targets=["language", "*.fc1", "*.q_proj"]), *STILL)
        self.assertEqual(of(plain), set())
        experts = "base_model.model.model.language_model.layers.1.mlp.experts."
        all_of_it = lora(rank=2, alpha=4, targets=["*.experts.gate_up_proj", "*.experts.down_proj", "*embed_tokens*", "*lm_head*"])
        run = self.over_internvl(base, "all", *all_of_it, "job.steps=12", "optimizer.learning_rate=3e-2")
        self.assertLessEqual({experts + "base_layer.lora_A.weight", experts + "lora_B.weight", "base_model.model.lm_head.lora_A.weight",
                              "base_model.model.model.language_model.embed_tokens.lora_embedding_A"}, of(run))
        curve = [row["loss"] for row in metrics(run)]
        self.assertLess(curve[-1], curve[0] - 0.2)
        before, after = read(base / "model.safetensors"), read(run / "model/model.safetensors")
        for name in before:
            self.assertEqual(before[name] != after[name], any(word in name for word in ("experts", "embed_tokens", "lm_head")), name)
        applied = self.over_internvl(base, "applied_all", f"lora.path={run / 'adapter'}", *STILL)
        self.assertAlmostEqual(self.first_loss(applied), self.first_loss(self.over_internvl(run / "model", "merged_all", *STILL)), delta=2e-6)
        for file in ("adapter_model.safetensors", "adapter_config.json"):
            self.assertEqual((applied / "adapter" / file).read_bytes(), (run / "adapter" / file).read_bytes(), file)
        self.refuse(["experts", "dropout", "lora.groups"], "model.family=internvl", f"model.config={self.folder / 'internvl.json'}",
                    *lora(targets=["*.experts.*"], dropout=0.1))
        self.refuse(["router", "gate.weight", "lora.also_train"], "model.family=internvl", f"model.config={self.folder / 'internvl.json'}",
                    *lora(targets=["*.mlp.gate.weight"]))

    def test_a_table_and_the_head_tied_to_it_share_one_adapter_whichever_is_named(self):
        made = {}
        for name in ("*embed_tokens*", "*lm_head*"):
            run = self.over(self.base, f"tied{len(made)}", *lora(rank=3, alpha=6, targets=[name, "*.o_proj"], groups=[]), "job.steps=6",
                            "optimizer.learning_rate=1e-2")
            made[name] = (run / "adapter/adapter_model.safetensors").read_bytes()
        self.assertEqual(made["*embed_tokens*"], made["*lm_head*"])
        tensors = read(run / "adapter/adapter_model.safetensors")
        table, head = "base_model.model.model.language_model.embed_tokens.lora_embedding_", "base_model.model.lm_head.lora_"
        values = lambda name: floats(tensors[name])
        for mine, its in (("A", "B"), ("B", "A")):  # A of the head is B of the table turned over
            rows, columns = tensors[table + its][1]
            turned = values(table + its)
            self.assertEqual([turned[r * columns + c] for c in range(columns) for r in range(rows)], list(values(f"{head}{mine}.weight")))
        config = json.loads((run / "adapter/adapter_config.json").read_text())
        self.assertTrue(config["ensure_weight_tying"])
        self.assertNotIn("lm_head", config["target_modules"])
        applied = self.over(self.base, "tied_applied", f"lora.path={run / 'adapter'}", *STILL)
        self.assertAlmostEqual(self.first_loss(applied), self.first_loss(self.over(run / "model", "tied_merged", *STILL)), delta=2e-6)
        self.assertNotIn("lm_head.weight", read(run / "model/model.safetensors"))
        # What adapts the head alone would untie it.
        alone = self.folder / "alone"
        shutil.copytree(run / "adapter", alone)
        config["ensure_weight_tying"] = False
        (alone / "adapter_config.json").write_text(json.dumps(config))
        self.refuse(["lora.path", "tied", "ensure_weight_tying"], f"lora.path={alone}")


class Groups(Case):
    """The first AdamW step moves an element by the learning rate exactly, whatever its gradient, where nothing decays."""

    def moved(self, before, after, name):
        return [abs(a - b) for a, b in zip(floats(after[name]), floats(before[name])) if a != b]

    def step(self, name, groups, *sets):
        run = self.over(self.base, name, "job.steps=1", "optimizer.learning_rate=1e-3", "optimizer.weight_decay=0",
                        "optimizer.epsilon=1e-15", "optimizer.clip_norm=0", f"optimizer.groups={toml(groups)}", *sets)
        return run, read(self.base / "model.safetensors"), read(run / "model/model.safetensors")

    def test_two_patterns_step_by_their_own_rates_and_what_none_matches_by_the_common_one(self):
        _, before, after = self.step("rates", [{"parameters": ["vision"], "learning_rate": 1e-2},
                                               {"parameters": ["*.layers.0.mlp.*"], "learning_rate": 1e-4}])
        for name, rate in (("visual.blocks.0.attn.qkv.weight", 1e-2), ("visual.merger.mlp.2.weight", 1e-2),
                           ("model.layers.0.mlp.down_proj.weight", 1e-4), ("model.layers.0.mlp.up_proj.weight", 1e-4),
                           ("model.layers.1.mlp.down_proj.weight", 1e-3), ("model.norm.weight", 1e-3)):
            moved = sorted(self.moved(before, after, name))
            self.assertTrue(math.isclose(moved[len(moved) // 2], rate, rel_tol=1e-2), f"{name}: {moved[len(moved) // 2]}")

    def test_weight_decay_is_the_groups_own(self):
        _, _, plain = self.step("plain", [{"parameters": ["vision"], "learning_rate": 1e-3}])
        _, before, after = self.step("decays", [{"parameters": ["*.layers.0.mlp.*"], "weight_decay": 0.5}])
        name = "model.layers.0.mlp.down_proj.weight"
        for b, p, a in zip(floats(before[name]), floats(plain[name]), floats(after[name])):
            self.assertAlmostEqual(a - p, -1e-3 * 0.5 * b, delta=1e-7)
        other = "model.layers.1.mlp.down_proj.weight"
        self.assertEqual(plain[other], after[other])

    def test_rates_of_a_and_b_of_adapters_may_differ(self):
        run = self.over(self.base, "a_and_b", *lora(**LORA), *STILL[:1], "optimizer.learning_rate=1e-3", "optimizer.epsilon=1e-15",
                        'optimizer.groups=[{parameters=["*.lora_B.*"], learning_rate=1e-2}]')
        b = read(run / "adapter/adapter_model.safetensors")["base_model.model.model.language_model.layers.0.self_attn.q_proj.lora_B.weight"]
        moved = sorted(abs(x) for x in floats(b))
        self.assertTrue(math.isclose(moved[len(moved) // 2], 1e-2, rel_tol=1e-2))

    def test_what_two_groups_match_or_none_is_told(self):
        twice = [{"parameters": ["vision"], "learning_rate": 1e-2}, {"parameters": ["*.blocks.0.*"], "learning_rate": 1e-3}]
        self.refuse(["table 2", '"*.blocks.0.*"', "visual.blocks.0.norm1.weight", "table 1 matches too"], f"optimizer.groups={toml(twice)}")
        self.refuse(["matches no parameter", "norm1"], 'optimizer.groups=[{parameters=["*.nrom1.*"], learning_rate=1e-2}]')
        self.refuse(["only what is not trained"], 'model.freeze=["vision"]', 'optimizer.groups=[{parameters=["vision"], learning_rate=1e-2}]')
        self.refuse(["neither learning_rate nor weight_decay"], 'optimizer.groups=[{parameters=["vision"]}]')
        sets = [word for item in (f"job.output={self.folder / 'told'}", 'optimizer.groups=[{parameters=["vision"], learning_rate=1e-2}]')
                for word in ("--set", item)]
        result = lfrun("check", self.job, *sets)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("group 1", result.stdout)
        self.assertIn("no group", result.stdout)


class TextModels(Case):
    def test_adapters_of_text_models_learn_alone_are_merged_and_open_again(self):
        data = self.folder / "text.jsonl"
        with data.open("w") as lines:
            for i in range(24):
                lines.write(json.dumps({"conversations": [{"from": "human", "value": f"Say {i}"},
                                                          {"from": "gpt", "value": "red green blue " * (1 + i % 3)}]}) + "\n")
        decoder = {key: value for key, value in COMPOSED["decoder"].items() if key != "type"}
        experts = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
        # Llama's own template needs its own tokens.
        for kind, more in (("llama", {}), ("qwen2", {}), ("qwen3", {}), ("qwen3_moe", experts)):
            with self.subTest(kind):
                file = self.folder / f"{kind}.json"
                file.write_text(json.dumps({"model_type": kind, **decoder, **more}))
                family = ["model.family=causal_lm", f"data.path={data}", "data.chat_template=chatml"]
                base = self.train(f"{kind}_base", *family, f"model.config={file}", *STILL) / "model"
                run = self.over(base, f"{kind}_learns", *family, *lora(rank=4, alpha=8, targets=["*.q_proj", "*.o_proj"]),
                                "job.steps=12", "optimizer.learning_rate=3e-2")
                curve = [row["loss"] for row in metrics(run)]
                self.assertEqual(curve[0], self.first_loss(self.over(base, f"{kind}_plain", *family, *STILL)))
                self.assertLess(curve[-1], curve[0] - 0.1)
                before, after = read(base / "model.safetensors"), read(run / "model/model.safetensors")
                self.assertEqual({name for name in before if before[name] != after[name]},
                                 {f"model.layers.{i}.self_attn.{part}_proj.weight" for i in (0, 1) for part in "qo"})
                tensors = read(run / "adapter/adapter_model.safetensors")
                self.assertEqual(tensors["base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"][1], [4, 32])
                applied = self.over(base, f"{kind}_applied", *family, f"lora.path={run / 'adapter'}", *STILL)
                merged = self.over(run / "model", f"{kind}_merged", *family, *STILL)
                self.assertAlmostEqual(self.first_loss(applied), self.first_loss(merged), delta=2e-6)


class ThreeStages(Case):
    """docs: plugins/models/compose/README.md."""

    def test_projector_first_then_adapters_on_the_decoder_then_reopened(self):
        for name, model in (("intern_vit_qwen3", COMPOSED), ("qwen2_5_vit_llama", WINDOWED)):
            with self.subTest(name):
                self.three_stages(name, model)

    def three_stages(self, name, model):
        named = ["model.family=compose", "model.config=''", f"model.options={toml(model)}", "job.steps=8"]
        family = ["model.family=compose"]
        start = self.train(f"{name}_start", *named, *STILL)
        first = self.over(start / "model", f"{name}_projector", *family, 'model.freeze=["vision.*", "language"]', "job.steps=8",
                          "optimizer.learning_rate=1e-2")
        before, after = read(start / "model/model.safetensors"), read(first / "model/model.safetensors")
        changed = {tensor for tensor in before if before[tensor] != after[tensor]}
        self.assertTrue(changed)
        self.assertFalse([tensor for tensor in changed if not tensor.startswith("projector.")])
        self.assertLess(metrics(first)[-1]["loss"], metrics(first)[0]["loss"])

        second = self.over(first / "model", f"{name}_decoder", *family, *lora(rank=4, alpha=8, targets=["language"], also_train=["projector.*"]),
                           "job.steps=12", "optimizer.learning_rate=3e-2")
        self.assertLess(metrics(second)[-1]["loss"], metrics(second)[0]["loss"] - 0.2)
        merged = read(second / "model/model.safetensors")
        changed = {tensor for tensor in merged if after[tensor] != merged[tensor]}
        self.assertFalse([tensor for tensor in changed if tensor.startswith("vision.")])
        for part in ("projector.", "language.layers.0.self_attn.k_proj", "language.layers.1.mlp.up_proj"):
            self.assertTrue([tensor for tensor in changed if tensor.startswith(part)], part)
        self.assertFalse([tensor for tensor in changed if "norm" in tensor and tensor.startswith("language.")])

        opened = self.over(first / "model", f"{name}_opened", *family, f"lora.path={second / 'adapter'}", 'lora.also_train=["projector.*"]', *STILL)
        whole = self.over(second / "model", f"{name}_whole", *family, *STILL)
        self.assertAlmostEqual(self.first_loss(opened), self.first_loss(whole), delta=2e-6)
        self.assertLess(self.first_loss(opened), metrics(second)[0]["loss"] - 0.1)


if __name__ == "__main__":
    unittest.main()
