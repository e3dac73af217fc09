"""One job on other hardware by one variable: over the simulated Kunlun runtime, which the host cannot read by accident."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from tiny_job import Lfrun, metrics, write_job

build = pathlib.Path(sys.argv.pop(1))
lfrun = Lfrun(build)


class Devices(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        cls.job = write_job(cls.folder / "job")

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def train(self, name, device, *sets, home="plain", **environment):
        """The finished process, its run directory, and what stands in its environment beside LF_DEVICE."""
        run = self.folder / name
        environment = {"LF_DEVICE": device, "LF_KUNLUN_HOME": str(build / "simulators/kunlun" / home),
                       "LF_SIM_XPU_COUNT": "4", **environment}
        words = [word for item in (f"job.output={run}", *sets) for word in ("--set", item)]
        return lfrun(self.job, *words, env={**os.environ, **environment}), run

    def check(self, device, *sets, code=0, **environment):
        words = [word for item in sets for word in ("--set", item)]
        environment = {"LF_DEVICE": device, "LF_KUNLUN_HOME": str(build / "simulators/kunlun/plain"), "LF_SIM_XPU_COUNT": "4",
                       **environment}
        result = lfrun("check", self.job, *words, env={**os.environ, **environment})
        self.assertEqual(result.returncode, code, result.stderr)
        return result.stdout + result.stderr

    def trains(self, *arguments, **environment):
        result, run = self.train(*arguments, **environment)
        self.assertEqual(result.returncode, 0, result.stderr)
        return run

    def refuses(self, code, result, run, *texts):
        self.assertEqual(result.returncode, code, result.stderr)
        for text in texts:
            self.assertIn(text, result.stderr)
        self.assertNotIn("this is a bug", result.stderr)
        self.assertFalse((run / "model").exists())

    def assert_same_curve(self, one, other, relative):
        ours, theirs = metrics(one), metrics(other)
        self.assertEqual(len(ours), len(theirs))
        for a, b in zip(ours, theirs):
            for name in ("loss", "grad_norm"):
                self.assertLessEqual(abs(a[name] - b[name]), relative * abs(b[name]), (a["step"], name))

    # The model's fused loops for host memory and LibTorch's operators round differently; f32 has 6e-8 a rounding.
    def test_one_and_two_processes_train_as_on_the_cpu(self):
        for processes in (1, 2):
            sets = (f"launch.processes={processes}",)
            cpu = self.trains(f"cpu{processes}", "cpu", *sets)
            kunlun = self.trains(f"kunlun{processes}", "kunlun", *sets, "device.op_fallback=warn")
            self.assert_same_curve(kunlun, cpu, 1e-6)

    # The unchanged job, with fewer and shorter steps.
    def test_the_quick_start_trains_as_on_the_cpu_on_one_and_two_processes(self):
        job = pathlib.Path(__file__).resolve().parent.parent.parent / "configs/quickstart.toml"
        if not (job.parent.parent / "data/gimp/train.jsonl").exists():
            self.skipTest("data/gimp is not there: tools/setup.sh makes it")
        for processes in (1, 2):
            runs = {device: self.folder / f"quickstart_{device}{processes}" for device in ("cpu", "kunlun")}
            for device, run in runs.items():
                sets = (f"job.output={run}", f"launch.processes={processes}", "job.steps=2", "schedule.warmup_steps=1",
                        "data.max_tokens=256", "balance.costs=stated", "checkpoint.export_model=false", "device.op_fallback=warn")
                result = subprocess.run(lfrun.command(job, *(word for item in sets for word in ("--set", item))),
                                        env={**os.environ, "LF_DEVICE": device, "LF_SIM_XPU_COUNT": "2",
                                             "LF_KUNLUN_HOME": str(build / "simulators/kunlun/shimmed")},
                                        capture_output=True, text=True, timeout=600)
                self.assertEqual(result.returncode, 0, result.stderr)
            self.assert_same_curve(runs["kunlun"], runs["cpu"], 1e-6)
            self.assertEqual(len(metrics(runs["kunlun"])), 2)
            for run in runs.values():
                shutil.rmtree(run)

    def test_memory_that_nobody_maps_and_a_runtime_without_event_queries_train_the_same(self):
        cpu = self.trains("cpu_for_kl2", "cpu")
        self.assert_same_curve(self.trains("kl2", "kunlun", "device.op_fallback=warn", home="kl2"), cpu, 1e-6)

    def test_bf16_values_reach_the_device(self):
        sets = ("precision.compute=bf16",)
        cpu = self.trains("cpu_bf16", "cpu", *sets)
        self.assert_same_curve(self.trains("kunlun_bf16", "kunlun", *sets, "device.op_fallback=warn"), cpu, 1e-2)

    def test_fixed_reduction_of_micro_batches_on_the_device_trains_as_on_the_cpu(self):
        sets = ("reduction.mode=fixed", "launch.processes=2")
        cpu = self.trains("cpu_fixed", "cpu", *sets)
        self.assert_same_curve(self.trains("kunlun_fixed", "kunlun", *sets, "device.op_fallback=warn"), cpu, 1e-6)

    def test_a_resumed_run_equals_the_straight_run_bit_for_bit(self):
        sets = ("device.op_fallback=warn",)
        straight = self.trains("straight", "kunlun", *sets)
        self.trains("resumed", "kunlun", *sets, "job.steps=3")
        resumed = self.trains("resumed", "kunlun", *sets)
        self.assertEqual((straight / "model/model.safetensors").read_bytes(),
                         (resumed / "model/model.safetensors").read_bytes())

    # AdamW by LibTorch's operators on device memory: the same roundings in the same order as the host's loop.
    def test_master_weights_and_moments_in_device_memory_give_the_bits_of_those_on_the_host(self):
        common = ("device.op_fallback=warn", "balance.costs=stated", "job.steps=3")
        # "shimmed" sums on the cards, "plain" and fixed on the host: then sums travel back.
        for name, home, sets in (("f32", "plain", ()), ("bf16", "plain", ("precision.compute=bf16",)),
                                 ("cards", "shimmed", ("launch.processes=2", "reduction.bucket_bytes=20000")),
                                 ("by_host", "plain", ("launch.processes=2", "precision.compute=bf16")),
                                 ("fixed", "plain", ("reduction.mode=fixed", "data.micro_batches=3")),
                                 ("parts", "plain", ('model.freeze=["vision"]', "optimizer.clip_norm=0.05")),
                                 ("average", "plain", ("ema.decay=0.9", "precision.compute=bf16")),
                                 ("lora", "plain", ('lora.targets=["language"]', "lora.rank=4", "optimizer.clip_norm=0"))):
            with self.subTest(name):
                host, device = (self.trains(f"adamw_{name}_{memory}", "kunlun", f"optimizer.memory={memory}", *common, *sets,
                                            home=home) for memory in ("host", "device"))
                for run, memory in ((host, "host"), (device, "device")):
                    self.assertEqual(json.loads((run / "env.json").read_text())["optimizer"]["memory"], memory)
                for folder in ("model", "model_ema") if name == "average" else ("model",):
                    self.assertEqual((device / folder / "model.safetensors").read_bytes(),
                                     (host / folder / "model.safetensors").read_bytes())
                self.assertEqual([row["loss"] for row in metrics(device)], [row["loss"] for row in metrics(host)])

    def test_groups_of_the_optimizer_reach_device_memory(self):
        text = self.job.read_text() + '\n[[optimizer.groups]]\nparameters = ["*.norm*", "vision"]\nlearning_rate = 1e-4\n' \
                                      'weight_decay = 0.3\n'
        job = self.job.with_name("groups.toml")
        job.write_text(text)
        models = []
        for memory in ("host", "device"):
            run = self.folder / f"groups_{memory}"
            words = [word for item in (f"job.output={run}", "device.op_fallback=warn", f"optimizer.memory={memory}")
                     for word in ("--set", item)]
            result = lfrun(job, *words, env={**os.environ, "LF_DEVICE": "kunlun",
                                             "LF_KUNLUN_HOME": str(build / "simulators/kunlun/plain")})
            self.assertEqual(result.returncode, 0, result.stderr)
            models.append((run / "model/model.safetensors").read_bytes())
        self.assertEqual(*models)

    def test_a_checkpoint_of_one_memory_goes_on_in_the_other_bit_for_bit(self):
        for precision in ("fp32", "bf16"):
            sets = ("device.op_fallback=warn", f"precision.compute={precision}", "job.steps=3", "ema.decay=0.9")
            straight = self.trains("straight_" + precision, "kunlun", *sets, "optimizer.memory=device")
            for first, then in (("device", "host"), ("host", "device"), ("device", "device")):
                name = f"{precision}_{first}_{then}"
                self.trains(name, "kunlun", *sets, f"optimizer.memory={first}", "job.steps=2")
                resumed = self.trains(name, "kunlun", *sets, f"optimizer.memory={then}")
                for folder in ("model", "model_ema"):
                    self.assertEqual((straight / folder / "model.safetensors").read_bytes(),
                                     (resumed / folder / "model.safetensors").read_bytes(), name)

    # The run counts what the device's plugin gave out; AdamW there has up to 1 MiB of its own for one part of the update.
    def test_check_tells_a_cards_memory_from_the_hosts_as_the_run_then_takes_it(self):
        counted, told = {}, {}
        for memory in ("host", "device"):
            sets = (f"optimizer.memory={memory}", "device.op_fallback=warn", "job.steps=1")
            counted[memory] = metrics(self.trains(f"counted_{memory}", "kunlun", *sets))[0]["peak_memory_bytes"]
            check = self.check("kunlun", *sets)
            told[memory] = {line[2:28].strip(): line.split()[-3:] for line in check.splitlines() if line.startswith("  ")}
        size, unit, place = told["device"]["optimizer moments"]
        self.assertEqual((unit, place), ("kB", "card"))
        self.assertEqual(told["host"]["optimizer moments"], [size, unit, "host"])
        self.assertEqual(told["host"]["master weights"][2], "host")
        self.assertEqual(told["device"]["gradients"][2], "card")
        more = counted["device"] - counted["host"] - float(size) * 1000
        self.assertTrue(-1000 < more < (1 << 20) + 1000, more)

    def test_check_says_where_adamw_may_be_and_that_a_card_is_too_small(self):
        text = self.check("kunlun")
        self.assertIn("optimizer.memory is auto: the card's where a trial of AdamW there passes; else 1.3 MB of a card's", text)
        self.assertIn("  warning: ", self.check("kunlun", LF_SIM_XPU_MEM="1000000"))

    def test_auto_leaves_adamw_to_the_host_where_the_device_has_no_operators_of_its_own_and_says_so(self):
        result, run = self.train("memory_auto", "kunlun", "device.op_fallback=warn", "job.steps=1")
        self.assertEqual(result.returncode, 0, result.stderr)
        record = json.loads((run / "env.json").read_text())["optimizer"]
        self.assertEqual(record["memory"], "host")
        self.assertIn("kunlun leaves LibTorch's operators to the CPU", record["reason"])
        self.assertIn("AdamW runs in the memory of the host: kunlun leaves", result.stderr)
        record = json.loads((self.trains("memory_cpu", "cpu", "job.steps=1") / "env.json").read_text())["optimizer"]
        self.assertEqual(record["memory"], "host")
        self.assertIn("the memory of cpu is the host's", record["reason"])

    def test_adamw_that_the_job_puts_on_a_device_without_operators_is_refused(self):
        self.refuses(69, *self.train("memory_refused", "kunlun", "optimizer.memory=device"),
                     "optimizer.memory: expected AdamW in the memory of kunlun", "kunlun has no operator aten::",
                     'write "auto" or "host"')

    def test_gradients_travel_while_backward_runs(self):
        # At 50 MB/s the gradients take about as long as a step, so that nothing is hidden by chance.
        run = self.trains("hidden", "kunlun", "device.op_fallback=warn", LF_SIM_XPU_MBPS="50")
        self.assertGreater(max(row["copies_hidden"] for row in metrics(run)), 0.3)

    def test_the_record_says_that_the_device_is_simulated_who_chose_it_and_what_the_cpu_did_for_it(self):
        result, run = self.train("auto", "auto", "device.op_fallback=warn", "job.steps=1")
        self.assertEqual(result.returncode, 0, result.stderr)
        device = json.loads((run / "env.json").read_text())["device"]
        self.assertEqual(device["id"], "kunlun")
        self.assertTrue(device["simulated"])
        self.assertIn("SIMULATED", device["name"])
        self.assertIn("chosen by auto: kunlun has 4 devices", device["choice"])
        self.assertIn("cuda has none", device["choice"])
        self.assertGreater(device["operators_on_cpu"]["aten::mul.out"], 100)
        for text in ("chosen by auto", "is SIMULATED", "operators ran on the CPU: aten::mul.out"):
            self.assertIn(text, result.stderr)

    def test_auto_without_a_card_is_the_cpu_and_says_why(self):
        result, run = self.train("auto_cpu", "auto", "job.steps=1", home="nowhere")
        self.assertEqual(result.returncode, 0, result.stderr)
        device = json.loads((run / "env.json").read_text())["device"]
        self.assertEqual(device["id"], "cpu")
        self.assertIn("kunlun has none", device["choice"])
        self.assertNotIn("operators_on_cpu", device)

    def test_an_operator_that_the_device_lacks_ends_the_job_unless_the_job_allows_it(self):
        self.refuses(69, *self.train("strict", "kunlun"), "kunlun has no operator aten::", 'op_fallback = "warn"')

    def test_a_device_without_cards_is_refused_before_a_worker_starts(self):
        result, run = self.train("absent", "kunlun", home="nowhere")
        self.refuses(69, result, run, "device kunlun", "finds no device", "libxpurt.so")
        self.assertFalse(run.exists())

    def test_more_workers_than_cards_are_refused_before_one_starts(self):
        for cards, workers in ((2, 3), (1, 2)):
            result, run = self.train(f"cards{cards}", "kunlun", f"launch.processes={workers}", LF_SIM_XPU_COUNT=str(cards))
            self.refuses(69, result, run, f"a card for each of the {workers} workers", f"found {cards}",
                         f"launch.processes = {cards}")
            self.assertFalse(run.exists())  # no worker was started

    def test_faults_of_the_device_end_the_job_with_their_name_and_kill_no_process(self):
        for fault, text in (("xpu_memcpy@7=-715", "timeout on the device"), ("xpu_wait@20=-808", "transfer timed out"),
                            ("xpu_memcpy_async@30=-718", "718"), ("xpu_stream_create@1=-707", "xpu_stream_create"),
                            ("xpu_event_record@9=-714", "714"), ("xpu_malloc@2+=-705", "out of device memory")):
            with self.subTest(fault):
                result, run = self.train("fault" + fault, "kunlun", "launch.processes=2", "device.op_fallback=warn",
                                         LF_SIM_XPU_FAIL=fault)
                self.assertIn(result.returncode, (69, 70), result.stderr)
                self.assertIn(text, result.stderr)
                self.assertNotIn("signal", result.stderr)

    # Two ranks: each sum has two terms, whose order changes no bit, so the card's sums are the host's. "plain" lacks the
    # numbers of BKCL, so that there the host sums.
    def test_two_ranks_sum_their_gradients_on_their_cards_and_get_the_bits_of_sums_on_the_host(self):
        sets = ("launch.processes=2", "device.op_fallback=warn", "balance.costs=stated", "reduction.bucket_bytes=20000")
        host = self.trains("on_host", "kunlun", *sets)
        for beside in ("", "1"):
            result, card = self.train("on_card" + beside, "kunlun", *sets, home="shimmed",
                                      LF_KUNLUN_COLLECTIVES_BESIDE_COMPUTE=beside)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual((card / "model/model.safetensors").read_bytes(),
                             (host / "model/model.safetensors").read_bytes())
            self.assertEqual([row["loss"] for row in metrics(card)], [row["loss"] for row in metrics(host)])
            self.assertEqual(json.loads((card / "env.json").read_text())["reduction"]["transport"], "device")
            self.assertIn("gradients are summed on the device: collectives of kunlun", result.stderr)
            self.assertIn("beside what the model computes" if beside else "after backward, on the stream that",
                          result.stderr)
        self.assert_same_curve(card, self.trains("cpu_stated", "cpu", "launch.processes=2", "balance.costs=stated"), 1e-6)

    def test_three_ranks_on_their_cards_train_as_on_the_cpu_and_go_on_after_a_stop(self):
        sets = ("launch.processes=3", "reduction.bucket_bytes=20000", "balance.costs=stated")
        cpu = self.trains("cpu3", "cpu", *sets)
        sets += ("device.op_fallback=warn",)
        straight = self.trains("card3", "kunlun", *sets, home="shimmed")
        self.assert_same_curve(straight, cpu, 1e-5)
        self.trains("card3_resumed", "kunlun", *sets, "job.steps=3", home="shimmed")
        resumed = self.trains("card3_resumed", "kunlun", *sets, home="shimmed")
        self.assertEqual((straight / "model/model.safetensors").read_bytes(),
                         (resumed / "model/model.safetensors").read_bytes())

    def test_sums_on_the_cards_travel_while_backward_runs(self):
        run = self.trains("sums_hidden", "kunlun", "launch.processes=2", "device.op_fallback=warn",
                          "reduction.bucket_bytes=8000", home="shimmed", LF_KUNLUN_COLLECTIVES_BESIDE_COMPUTE="1")
        self.assertGreater(max(row["copies_hidden"] for row in metrics(run)), 0.3)

    def test_where_the_cards_cannot_sum_the_host_does_and_says_why(self):
        sets = ("launch.processes=2", "device.op_fallback=warn", "job.steps=1")
        for name, more, reason in (("plain", (), "not the numbers of its enumerations"), ("kl2", (), "cannot say whether work is done"),
                                   ("shimmed", ("reduction.mode=fixed",), "reduction.mode is fixed")):
            with self.subTest(name):
                result, run = self.train("unable_" + name, "kunlun", *sets, *more, home=name)
                self.assertEqual(result.returncode, 0, result.stderr)
                record = json.loads((run / "env.json").read_text())["reduction"]
                self.assertEqual(record["transport"], "host")
                self.assertIn(reason, record["reason"])
                self.assertIn("gradients are summed on the host", result.stderr)

    def test_the_job_may_choose_what_sums_its_gradients(self):
        sets = ("launch.processes=2", "device.op_fallback=warn", "job.steps=1")
        run = self.trains("sums_chosen", "kunlun", *sets, "reduction.transport=host", home="shimmed")
        self.assertEqual(json.loads((run / "env.json").read_text())["reduction"],
                         {"transport": "host", "reason": "reduction.transport is host"})
        run = self.trains("cards_chosen", "kunlun", *sets, "reduction.transport=device", home="shimmed")
        self.assertEqual(json.loads((run / "env.json").read_text())["reduction"]["transport"], "device")
        for home, reason in (("plain", "not the numbers of its enumerations"), ("kl2", "cannot say whether work is done")):
            self.refuses(69, *self.train("no_cards_" + home, "kunlun", *sets, "reduction.transport=device", home=home),
                         "reduction.transport: expected the collectives of kunlun", reason, 'write "auto" or "host"')
        self.refuses(78, *self.train("both", "kunlun", *sets, "reduction.transport=device", "reduction.mode=fixed"),
                     "reduction.transport must be host or auto where reduction.mode is fixed")

    # A driver that never returns: the rank that waits for it says so and goes, its peers with it, long before they would
    # count as late.
    def test_a_call_that_never_returns_ends_the_job_with_its_rank_its_name_and_its_time(self):
        for fault, text in (("xpu_event_wait@4=hang", "device kunlun: event_synchronize"),
                            ("xpu_memcpy@7=hang", "device kunlun: "),
                            ("bkcl_all_reduce@5=hang", "device kunlun, gradients: all_reduce")):
            with self.subTest(fault):
                result, run = self.train("hang" + fault, "kunlun", "launch.processes=2", "device.op_fallback=warn",
                                         "reduction.bucket_bytes=20000", "device.call_timeout_seconds=2",
                                         home="shimmed", LF_SIM_XPU_FAIL=fault,
                                         LF_SIM_XPU_FAIL_RANK="1")
                self.refuses(69, result, run, "rank 1", text, "has not returned for")
                self.assertNotIn("signal", result.stderr)

    def test_faults_of_the_collectives_end_the_job_with_their_name_and_nobody_hangs(self):
        for fault, code, *texts in (
                ("bkcl_all_reduce@5=44", 69, "rank 1 of 2", "all_reduce of", "system error; a peer is gone"),
                ("bkcl_all_reduce@5=8", 69, "rank 1 of 2", "internal error"),
                ("bkcl_all_reduce@5=exit:9", 9, "rank 1 of 2", "ended with exit code 9")):
            for beside in ("", "1"):
                with self.subTest(fault + beside):
                    result, run = self.train("bkcl" + fault + beside, "kunlun", "launch.processes=2",
                                             "device.op_fallback=warn", "reduction.bucket_bytes=20000", home="shimmed",
                                             LF_SIM_XPU_FAIL=fault, LF_SIM_XPU_FAIL_RANK="1",
                                             LF_KUNLUN_COLLECTIVES_BESIDE_COMPUTE=beside)
                    self.refuses(code, result, run, *texts)
                    self.assertNotIn("signal", result.stderr)

    # Every family makes its tensors where its parameters are: recorded numbers, forward and backward, on memory that the
    # host cannot touch by accident.
    def test_every_family_gives_the_reference_its_numbers_on_the_device(self):
        for family, name, case in (("qwen_vl", "qwen3_vl-tiny", "mixed"), ("internvl", "internvl35_moe-tiny", "mixed"),
                                   ("deepseek", "deepseek_v3-tiny", "mtp"), ("deepseek", "deepseek_v32-tiny", "lm"),
                                   ("deepseek", "deepseek_v32-tiny", "full"), ("deepseek", "deepseek_v32-odd", "indexer_warmup"),
                                   ("diffusion", "flux-tiny", "main"), ("diffusion", "qwen_image-tiny", "main"),
                                   ("diffusion", "wan-tiny", "main")):
            with self.subTest(name):
                folder = build / "fixtures/references" / name
                environment = {**os.environ, "LF_KUNLUN_HOME": str(build / "simulators/kunlun/plain")}
                words = ("parity", folder, case, "--family", family, "--out", self.folder / name)
                refused = lfrun(*words, env={**environment, "LF_DEVICE": "kunlun"})
                self.assertEqual(refused.returncode, 69, refused.stderr)
                self.assertIn("lfrun parity --op-fallback warn", refused.stderr)
                result = lfrun(*words, "--op-fallback", "warn", env={**environment, "LF_DEVICE": "kunlun"})
                self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
                self.assertIn("operators ran on the CPU", result.stderr)

    def test_all_cases_of_a_folder_run_in_one_command(self):
        folder = build / "fixtures/references/qwen3_vl-tiny"
        result = lfrun("parity", folder, "--family", "qwen_vl", "--op-fallback", "warn", "--out", self.folder / "all_cases",
                       env={**os.environ, "LF_KUNLUN_HOME": str(build / "simulators/kunlun/plain"), "LF_DEVICE": "kunlun"})
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        for case in ("mixed", "packed", "text"):
            self.assertIn(f"\n{case} ", result.stdout)

    # A kept binary that reads what it is bound to as the host's memory: on a card's it would die.
    def host_model(self):
        """A folder with that plugin, and the settings that take it."""
        plugins, config = self.folder / "host_models", self.folder / "host_case/config.json"
        if not plugins.exists():
            plugins.mkdir()
            kept = pathlib.Path(__file__).resolve().parent.parent / "fixtures/abi/kept-0.1/model_c.lfplugin.so"
            (plugins / kept.name).write_bytes(kept.read_bytes())
            (plugins / kept.name).chmod(0o755)
            (config.parent / "none").mkdir(parents=True)
            (config.parent / "none/inputs.safetensors").write_bytes(b"")  # of a parity case that does not get so far
            config.write_text('{"model_type": "bytes", "width": 16}')
        return plugins, ("model.family=template_c", f"model.config={config}", "data.max_tokens=512", "data.micro_batches=3")

    def run_host_model(self, *words, device="kunlun", sets=(), **more):
        plugins, own = self.host_model()
        words = [*words, *(word for item in (*own, *sets) for word in ("--set", item))]
        return lfrun("--plugin-dir", plugins, *words,
                     env={**os.environ, "LF_KUNLUN_HOME": str(build / "simulators/kunlun/plain"), "LF_SIM_XPU_COUNT": "4",
                          "LF_DEVICE": device, **more})

    def test_a_model_that_computes_in_host_memory_is_refused_on_a_card_before_a_worker_starts(self):
        run, case = self.folder / "host_run", self.host_model()[0].parent / "host_case"
        sets = ("launch.processes=2", f"job.output={run}")
        alone = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
        for name, ended in (("check", self.run_host_model("check", self.job, sets=sets)),
                            ("train", self.run_host_model(self.job, sets=sets)),
                            ("one of torchrun's", self.run_host_model(self.job, sets=(f"job.output={run}_alone",), **alone)),
                            ("parity", lfrun("--plugin-dir", self.host_model()[0], "parity", case, "none", "--family", "template_c",
                                             env={**os.environ, "LF_DEVICE": "kunlun",
                                                  "LF_KUNLUN_HOME": str(build / "simulators/kunlun/plain")}))):
            with self.subTest(name):
                self.refuses(78, ended, run, "model.family: expected a model that computes in the memory of device kunlun, got "
                             "template_c, which computes in the host's alone", "take LF_DEVICE=cpu")
                self.assertNotIn("signal", ended.stderr)
                if name == "train":
                    self.assertFalse(run.exists())  # no worker was started

    # The maths is the CPU's own, and so are the bits: sums of gradients have the same terms in the same order.
    def test_a_model_that_computes_in_host_memory_gets_copies_where_the_job_allows_it_and_the_cpus_bits(self):
        for processes in (1, 2):
            for mode in ("fast", "fixed"):
                sets = (f"launch.processes={processes}", f"reduction.mode={mode}", "balance.costs=stated", "job.steps=4",
                        "device.op_fallback=warn")
                runs = {device: self.folder / f"host_{device}{processes}{mode}" for device in ("cpu", "kunlun")}
                for device, run in runs.items():
                    ended = self.run_host_model(self.job, device=device, sets=(*sets, f"job.output={run}"))
                    self.assertEqual(ended.returncode, 0, ended.stderr)
                for name in ("loss", "grad_norm"):
                    self.assertEqual([row[name] for row in metrics(runs["kunlun"])], [row[name] for row in metrics(runs["cpu"])])
                self.assertEqual(*((run / "model/model.safetensors").read_bytes() for run in runs.values()))
                counted = json.loads((runs["kunlun"] / "env.json").read_text())["device"]["operators_on_cpu"]
                passes = 4 * 3 * processes  # steps x micro-batches, where none is empty
                self.assertEqual(counted["template_c: forward of language"], counted["template_c: backward of language"])
                self.assertTrue(passes / 2 < counted["template_c: forward of language"] <= passes, counted)
                self.assertIn("model template_c computed in the host's memory for device kunlun: backward of language", ended.stderr)
        said = self.run_host_model("check", self.job, sets=("device.op_fallback=warn",)).stdout
        self.assertIn("warning: it computes in the host's memory", said)
        self.assertRegex(said, "copies that the model reads .* host\n")

    # It runs in the process of the plugin that opens it.
    def test_the_part_for_libtorch_is_locked_with_its_plugin(self):
        there = Lfrun(build)
        there.plugins = self.folder / "locked"
        there.plugins.mkdir()
        for name in ("kunlun.lfplugin.so", "qwen_vl.lfplugin.so", "minimax.lfplugin.so"):
            shutil.copy(build / "plugins" / name, there.plugins)
        part = shutil.copy(next((build / "plugins").glob("kunlun_torch_*.so")), there.plugins)
        self.assertIn("3 plugins locked", there("plugins", "lock").stdout)
        run = self.folder / "locked_run"
        words = (self.job, "--locked", "--set", f"job.output={run}", "--set", "job.steps=1", "--set", "device.op_fallback=warn")
        environment = {**os.environ, "LF_KUNLUN_HOME": str(build / "simulators/kunlun/plain"), "LF_DEVICE": "kunlun"}
        result = there(*words, env=environment)
        self.assertEqual(result.returncode, 0, result.stderr)
        shutil.rmtree(run)
        with open(part, "ab") as file:
            file.write(b"x")
        self.refuses(78, there(*words, env=environment), run, f"its part {part}: expected sha256 ", " as locked, got ")
        os.chmod(part, 0o666)
        self.refuses(78, there(*words, env=environment), run, f"its part {part}: expected a file that only its owner may write")
        self.assertFalse(run.exists())

    def test_the_devices_profiler_is_told_of_each_step_and_what_is_done_in_it(self):
        told = self.folder / "ranges"
        result = lfrun("--plugin-dir", build / "tests/end_to_end/plugins", self.job, "--set", f"job.output={self.folder}/ranged",
                       "--set", "job.steps=2", "--set", "data.micro_batches=2",
                       env={**os.environ, "LF_DEVICE": "template_cpp", "LF_TEST_RANGES": str(told)})
        self.assertEqual(result.returncode, 0, result.stderr)
        open_ranges, steps = [], []
        for line in told.read_text().splitlines():
            if line == "-":
                open_ranges.pop()
            elif line == "+step":
                self.assertEqual(open_ranges, [])
                open_ranges.append("step")
                steps.append([])
            else:
                self.assertEqual(open_ranges, ["step"], line)
                open_ranges.append(line[1:])
                steps[-1].append(line[1:])
        self.assertEqual((open_ranges, len(steps)), ([], 2))
        for step in steps:
            self.assertEqual(step[-2:], ["reduction", "optimizer"])
            passes = [name for name in step[:-2] if name.endswith("language")]
            self.assertEqual(passes, ["forward of language", "backward of language"] * 2)
            others = [name for name in step[:-2] if not name.endswith("language")]
            self.assertEqual(others, ["forward of vision", "backward of vision"] * (len(others) // 2))
        self.assertTrue(any("forward of vision" in step for step in steps))

    def test_a_model_that_does_not_fit_says_so(self):
        self.refuses(69, *self.train("full", "kunlun", "device.op_fallback=warn", LF_SIM_XPU_MEM="1000000"),
                     "out of device memory")


if __name__ == "__main__":
    unittest.main()
