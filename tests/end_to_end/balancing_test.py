"""Balancing changes who trains what, and nothing else: the same losses and gradients as without it."""
import array
import json
import pathlib
import shutil
import struct
import sys
import tempfile
import unittest

from tiny_job import Lfrun, metrics, write_job, write_png

lfrun = Lfrun(sys.argv.pop(1))

# Sums of f32 in another order. Losses are summed in f64 from f32 losses of tokens, gradients in f32.
SUMMATION = 1e-6


def gradients(run, step):
    """AdamW's first moment after the first step is a tenth of the clipped gradient."""
    data = next((pathlib.Path(run) / "ckpt").glob(f"step-{step:08}/optimizer.safetensors")).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    found = {}
    for name, tensor in json.loads(data[8:8 + size]).items():
        if name.endswith(".m"):
            begin, end = tensor["data_offsets"]
            found[name] = array.array("f", data[8 + size + begin:8 + size + end])
    return found


def difference(ours, theirs):
    """Of two sets of gradients, relative to their length."""
    assert ours.keys() == theirs.keys() and ours
    apart = sum((a - b) ** 2 for name in ours for a, b in zip(ours[name], theirs[name]))
    length = sum(a * a for name in ours for a in ours[name])
    return (apart / length) ** 0.5


class Balancing(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        layout = {"launch": {"processes": 4}, "data": {"micro_batches": 4, "max_tokens": 160}}
        cls.job = write_job(cls.folder / "pictures", samples=120, **layout)
        cls.videos = write_job(cls.folder / "videos", samples=4, **layout)
        cls.write_videos(cls.folder / "videos/data", 60)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    @staticmethod
    def write_videos(folder, samples):
        """Every third sample is text; the others are videos of two to eight frames."""
        for f in range(8):
            write_png(folder / f"images/frame{f}.png", 56, 56, f)
        with open(folder / "train.jsonl", "w", encoding="utf-8") as out:
            for i in range(samples):
                sample = {"id": str(i), "conversations": [
                    {"from": "human", "value": ("<video>" if i % 3 else "") + f"What happens in {i}?"},
                    {"from": "gpt", "value": "layers " * (1 + 7 * i % 23)}]}
                if i % 3:
                    sample["video"] = {"frames": [f"images/frame{f}.png" for f in range(2 * (1 + i % 4))], "fps": 2}
                out.write(json.dumps(sample) + "\n")

    def train(self, job, name, *sets):
        run = self.folder / name
        words = [word for item in (f"job.output={run}", *sets) for word in ("--set", item)]
        result = lfrun(job, *words)
        self.assertEqual(result.returncode, 0, result.stderr)
        return run

    def assert_equal_steps(self, ours, theirs, steps):
        for a, b in zip(metrics(ours)[:steps], metrics(theirs)[:steps], strict=True):
            for key in ("loss", "grad_norm"):
                self.assertLessEqual(abs(a[key] - b[key]), SUMMATION * abs(b[key]), f"{ours.name}, step {a['step']}: {key}")
            for key in ("supervised_tokens", "tokens", "samples"):
                self.assertEqual(a[key], b[key])

    def assert_equal_maths(self, job, prefix):
        one_step = ["job.steps=1", "balance.costs=stated", "checkpoint.export_model=false"]
        plain = self.train(job, f"{prefix}_none", "balance.policy=none", *one_step)
        self.assertFalse(metrics(plain)[0]["balance"]["planned"])
        for policy in ("minimax", "longest_first", "karmarkar_karp"):
            run = self.train(job, f"{prefix}_{policy}", f"balance.policy={policy}", *one_step)
            self.assertTrue(metrics(run)[0]["balance"]["planned"], "nothing was balanced: this compares nothing")
            self.assert_equal_steps(run, plain, 1)
            self.assertLessEqual(difference(gradients(run, 1), gradients(plain, 1)), SUMMATION, policy)

    def test_pictures_and_text_mixed_have_the_same_loss_and_gradients_with_any_policy(self):
        self.assert_equal_maths(self.job, "pictures")

    def test_videos_have_the_same_loss_and_gradients_with_any_policy(self):
        self.assert_equal_maths(self.videos, "videos")

    def assert_a_resume_changes_no_step(self, job, prefix):
        # Without a learning rate the weights stay, and with them what every step must come to.
        still = ["job.steps=10", "optimizer.learning_rate=0", "checkpoint.export_model=false"]
        plain = self.train(job, f"{prefix}_still_none", "balance.policy=none", *still)
        run = self.train(job, f"{prefix}_still_minimax", "checkpoint.every_steps=5", "checkpoint.keep=5", *still)
        self.assert_equal_steps(run, plain, 10)
        shutil.rmtree(run / "ckpt/step-00000010")
        resumed = lfrun(job, *[word for item in (f"job.output={run}", *still) for word in ("--set", item)])
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        self.assertIn("resumed after step 5", resumed.stderr)
        self.assertEqual([row["step"] for row in metrics(run)], list(range(1, 11)))
        self.assert_equal_steps(run, plain, 10)

    def test_with_learned_costs_and_a_resume_in_the_middle_every_step_stays_the_same(self):
        self.assert_a_resume_changes_no_step(self.job, "pictures")

    def test_videos_too_are_the_same_after_a_resume_in_the_middle(self):
        self.assert_a_resume_changes_no_step(self.videos, "videos")

    def test_a_data_set_may_be_named_from_its_own_folder(self):
        result = lfrun("balance", "train.jsonl", "--ranks", "4", "--json", cwd=self.job.parent / "data")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertGreater(json.loads(result.stdout)["samples"], 0)

    def test_ranks_without_pictures_wait_for_nobody(self):
        job = write_job(self.folder / "rare", samples=8, launch={"processes": 4},
                        data={"micro_batches": 1, "max_tokens": 160, "packing": False})
        data = self.folder / "rare/data/train.jsonl"
        lines = [json.loads(line) for line in data.read_text().splitlines()]
        for sample in lines[2:]:  # one sample in eight has a picture
            sample.pop("image", None)
            sample["conversations"][0]["value"] = "Say something"
        data.write_text("".join(json.dumps(sample) + "\n" for sample in lines))
        self.assertEqual(len(metrics(self.train(job, "rare_run", "job.steps=8"))), 8)

    def test_a_rank_without_pictures_gives_the_towers_of_qwen3_vl_the_gradients_of_the_other(self):
        config = {"model_type": "qwen3_vl", "image_token_id": 262, "video_token_id": 263, "vision_start_token_id": 259,
                  "vision_end_token_id": 260, "tie_word_embeddings": True,
                  "text_config": {"model_type": "qwen3_vl_text", "vocab_size": 272, "hidden_size": 32, "intermediate_size": 48,
                                  "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
                                  "hidden_act": "silu", "rms_norm_eps": 1e-6, "max_position_embeddings": 2048,
                                  "attention_bias": False, "tie_word_embeddings": True,
                                  "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_interleaved": True,
                                                      "mrope_section": [2, 1, 1]}},
                  "vision_config": {"model_type": "qwen3_vl_vision", "depth": 3, "hidden_size": 24, "intermediate_size": 40,
                                    "num_heads": 2, "out_hidden_size": 32, "in_channels": 3, "patch_size": 14,
                                    "spatial_merge_size": 2, "temporal_patch_size": 2, "num_position_embeddings": 16,
                                    "hidden_act": "gelu_pytorch_tanh", "deepstack_visual_indexes": [0, 2]}}
        job = write_job(self.folder / "one_sided", samples=4, config=config, data={"micro_batches": 2, "packing": False})
        data = self.folder / "one_sided/data/train.jsonl"
        lines = [json.loads(line) for line in data.read_text().splitlines()]
        picture, text = next(s for s in lines if "image" in s), next(s for s in lines if "image" not in s)
        data.write_text("".join(json.dumps({**sample, "id": str(i)}) + "\n" for i, sample in enumerate([picture, text])))
        sets = ["job.steps=1", "balance.policy=none", "checkpoint.export_model=false", "data.shuffle=false"]
        one = self.train(job, "both_on_one", *sets)
        two = self.train(job, "one_sided_run", *sets, "launch.processes=2", "data.micro_batches=1")
        self.assert_equal_steps(two, one, 1)
        self.assertEqual(metrics(two)[0]["samples"], 2)
        self.assertLessEqual(difference(gradients(two, 1), gradients(one, 1)), SUMMATION)
        stacked = {name: values for name, values in gradients(two, 1).items() if "deepstack_merger_list" in name}
        self.assertGreaterEqual(len(stacked), 2)
        for name, values in stacked.items():
            self.assertTrue(any(values), name)

    def test_costs_survive_a_resume_with_another_number_of_ranks(self):
        sets = ["balance.policy=minimax", "balance.costs=learned", "optimizer.learning_rate=0", "checkpoint.export_model=false"]
        run = self.train(self.job, "shrinking", "job.steps=6", *sets)
        known = json.loads((run / "profile.json").read_text())["fit"]
        self.assertEqual((known["ranks"], known["steps"]), (4, 6))
        self.train(self.job, "shrinking", "job.steps=9", "launch.processes=2", *sets)
        known = json.loads((run / "profile.json").read_text())["fit"]
        self.assertEqual((known["ranks"], known["steps"]), (2, 9))

    def test_fewer_ranks_of_more_micro_batches_go_on_with_the_same_samples_in_every_step(self):
        still = ["optimizer.learning_rate=0", "checkpoint.export_model=false", "balance.costs=stated"]
        plain = self.train(self.job, "wide_none", "job.steps=6", "data.micro_batches=2", "balance.policy=none", *still)
        run = self.train(self.job, "recut", "job.steps=3", "data.micro_batches=2", *still)
        words = [word for item in (f"job.output={run}", "job.steps=6", "launch.processes=2", "data.micro_batches=4", *still)
                 for word in ("--set", item)]
        resumed = lfrun(self.job, *words)
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        self.assertIn("resumed after step 3", resumed.stderr)
        self.assertNotIn("on all ranks together and is now", resumed.stderr)
        self.assert_equal_steps(run, plain, 6)
        smaller = lfrun(self.job, *words, "--set", "job.steps=7", "--set", "data.micro_batches=1")
        self.assertEqual(smaller.returncode, 0, smaller.stderr)
        self.assertIn("a step was 8 micro-batches on all ranks together and is now 2", smaller.stderr)

    def test_objectives_for_other_layouts_are_refused_with_what_they_are_for(self):
        for objective, where in (("lockstep", "at every micro-batch"), ("two-stage", "between encoder and decoder")):
            result = lfrun("check", self.job, "--set", f"balance.objective={objective}")
            self.assertEqual(result.returncode, 78, result.stderr)
            self.assertIn(f"balance.objective must be auto, sum or makespan, got {objective}", result.stderr)
            self.assertIn(where, result.stderr)
        run = self.train(self.job, "makespan", "job.steps=1", "balance.objective=makespan", "balance.costs=stated",
                         "checkpoint.export_model=false")
        self.assertTrue(metrics(run)[0]["balance"]["planned"])

    def test_a_jobs_samples_are_planned_as_training_meets_them(self):
        run = self.train(self.job, "as_trained", "job.steps=0", "job.epochs=1", "data.micro_batches=40",
                         "checkpoint.export_model=false")
        trained = metrics(run)[0]
        self.assertEqual(len(metrics(run)), 1)  # an epoch is one step
        result = lfrun("balance", self.job, "--json", "--set", "data.micro_batches=40")
        self.assertEqual(result.returncode, 0, result.stderr)
        planned = json.loads(result.stdout)
        self.assertEqual((planned["ranks"], planned["micro_batches"], planned["steps"]), (4, 40, 1))
        self.assertEqual(planned["samples"], trained["samples"])
        self.assertIn(f"{trained['samples']} samples of 120, as qwen_vl counts them: "
                      f"{trained['tokens'] / trained['samples']:.0f} tokens", planned["note"])
        self.assertEqual(planned["policies"]["minimax"]["cap_breaches"], 0)
        refused = lfrun("balance", self.job, "--set", "data.max_tokens=3")
        self.assertEqual(refused.returncode, 78, refused.stderr)
        self.assertIn("data.max_tokens", refused.stderr)

    def test_a_run_leaves_a_profile_that_the_scaling_simulator_reads(self):
        run = self.train(self.job, "profiled", "job.steps=6", "checkpoint.export_model=false")
        profile = json.loads((run / "profile.json").read_text())
        for key in ("flops_per_second", "gradient_bytes", "bus_bandwidth", "latency_seconds"):
            self.assertGreater(profile[key], 0, key)
        self.assertEqual((profile["measured"]["ranks"], profile["measured"]["micro_batches"]), (4, 4))
        quiet = self.folder / "quiet_profile.json"
        quiet.write_text(json.dumps(profile | {"noise": 0}))  # whose draws would decide between plans that are alike
        for of in ([self.job], ["--synthetic", "D6", "--model", self.folder / "pictures/config.json"]):
            result = lfrun("balance", *of, "--scaling", "2..16", "--profile", quiet, "--json")
            self.assertEqual(result.returncode, 0, result.stderr)
            result = json.loads(result.stdout)
            self.assertIn("language.rows", result["costs"])
            self.assertEqual(result["measured"], profile["measured"])
            for point in result["scaling"]:
                self.assertGreaterEqual(point["policies"]["minimax"]["efficiency"],
                                        point["policies"]["none"]["efficiency"] - 1e-9)

    def test_imbalance_expected_and_measured_is_in_the_metrics(self):
        run = self.train(self.job, "measured", "job.steps=3", "balance.costs=stated", "checkpoint.export_model=false")
        for row in metrics(run):
            balance = row["balance"]
            self.assertLessEqual(balance["predicted_imbalance"], balance["arrival_imbalance"] + 1e-9)
            self.assertGreaterEqual(balance["measured_imbalance"], 0)
            self.assertGreater(balance["plan_seconds"], 0)

    def test_a_setting_that_the_policy_does_not_know_is_refused_by_name(self):
        result = lfrun(self.job, "--set", 'balance.options={speed=3}', "--set", f"job.output={self.folder / 'refused'}")
        self.assertEqual(result.returncode, 78, result.stderr)
        self.assertIn("balance.options: balancer minimax: unknown setting speed", result.stderr)
        asked = lfrun("balance", self.job, "--set", 'balance.options={speed=3}')
        self.assertEqual(asked.returncode, 78, asked.stderr)
        self.assertIn("balancer minimax: balance.options: unknown setting speed", asked.stderr)

    def test_a_fixed_reduction_has_no_balancing_and_says_so_where_both_are_wanted(self):
        result = lfrun(self.job, "--set", "reduction.mode=fixed", "--set", "balance.policy=minimax")
        self.assertEqual(result.returncode, 78, result.stderr)
        self.assertIn("balance.policy must be none where reduction.mode is fixed, got minimax", result.stderr)


if __name__ == "__main__":
    unittest.main()
