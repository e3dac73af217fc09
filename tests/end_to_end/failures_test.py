"""What goes wrong at a user's desk, and the one clear error or the mended run that follows."""
import json
import os
import pathlib
import shlex
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

from tiny_job import INTERNVL, Lfrun, metrics, write_job, write_png

build = pathlib.Path(sys.argv.pop(1))
lfrun = Lfrun(build)
SLOW_DISK = build.resolve() / "tests/end_to_end/libslow_disk.so"


class Failures(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.folder = pathlib.Path(self.scratch.name)

    def job(self, **sections):
        return write_job(self.folder / "job", **sections)

    def refuses(self, result, code, *texts):
        self.assertEqual(result.returncode, code, result.stderr)
        for text in texts:
            self.assertIn(text, result.stderr)
        self.assertNotIn("this is a bug", result.stderr)

    def test_all_mistakes_of_a_job_file_are_told_in_one_pass_with_places_and_the_nearest_names(self):
        job = self.job(data={"max_tokenz": 5}, optimizer={"learning_rate": -1}, precision={"compute": "fp8"})
        self.refuses(lfrun("check", job), 78, "max_tokenz", "max_tokens", "optimizer.learning_rate", "fp8", "job.toml:")

    def test_help_of_every_command_is_a_usage_on_stdout_and_success(self):
        for command in ([], ["check"], ["balance"], ["parity"], ["export"], ["plugins", "list"], ["options"]):
            result = lfrun(*command, "--help")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn(f"lfrun {command[0] if command else 'JOB.toml'}", result.stdout)
            self.assertEqual("SIGTERM, SIGUSR1 or Ctrl-C" in result.stdout, not command, "whose usage is it?")

    def test_an_absent_device_is_exit_69_and_never_a_run_on_the_cpu(self):
        result = lfrun(self.job(), env={**os.environ, "LF_DEVICE": "nosuch"})
        self.refuses(result, 69, "nosuch", "there are cpu")
        self.assertFalse((self.folder / "job/run/metrics.jsonl").exists())

    def test_the_record_says_who_named_the_device_or_that_it_is_the_default(self):
        plain = {name: value for name, value in os.environ.items() if name != "LF_DEVICE"}
        for name, sections, sets, more, said in (
                ("default", {}, [], {}, "the default, as neither device.name nor LF_DEVICE is given; "),
                ("job", {"device": {"name": "cpu"}}, [], {}, "named by the job; "),
                ("set", {}, ["--set", "device.name=cpu"], {}, "named by --set; "),
                ("environment", {"device": {"name": "cpu"}}, [], {"LF_DEVICE": "cpu"}, "named by LF_DEVICE; ")):
            result = lfrun(write_job(self.folder / name, job={"steps": 1}, **sections), *sets, env={**plain, **more})
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn(f"device cpu: {said}", result.stderr)
            record = json.loads((self.folder / name / "run/env.json").read_text())
            self.assertEqual(record["device"]["choice"].split("; ")[0] + "; ", said)

    def test_what_only_a_card_can_do_is_refused_on_the_cpu_with_69(self):
        for processes in (1, 2):
            for option, wanted in (("reduction.transport", "expected the collectives of a card"),
                                   ("optimizer.memory", "expected the memory of a card")):
                with self.subTest(option=option, processes=processes):
                    job = write_job(self.folder / f"{option}{processes}", launch={"processes": processes})
                    self.refuses(lfrun(job, "--set", f"{option}=device"), 69, f"--set: {option}: {wanted}", "cpu is the host"
                                 if option == "reduction.transport" else "the memory of cpu is the host's",
                                 'write "auto" or "host"')
                    self.assertFalse((job.parent / "run/metrics.jsonl").exists())

    # What the SDK's guard makes of an exception; a model in C says so itself.
    def test_an_exception_in_a_model_ends_the_job_with_70_its_place_and_its_words(self):
        for processes in (1, 2):
            job = write_job(self.folder / f"throws{processes}", model={"family": "template_c"},
                            launch={"processes": processes}, data={"max_tokens": 512, "micro_batches": 2})
            job.with_name("config.json").write_text('{"model_type": "bytes", "width": 16}')
            result = lfrun("--plugin-dir", build / "tests/conformance/plugins", job,
                           env={**os.environ, "LF_WRONG": "forward_throws"})
            self.refuses(result, 70, "model plugin template_c: forward of", "std::out_of_range: layer 7 of 6")
            self.assertNotIn("signal", result.stderr)

    def test_a_freeze_pattern_that_matches_nothing_is_refused_by_name(self):
        self.refuses(lfrun(self.job(model={"freeze": ["visoin.*"]})), 78, '"visoin.*"', "matches no parameter")

    def test_bad_samples_are_named_skipped_on_all_ranks_alike_and_listed(self):
        job = self.job(samples=40, launch={"processes": 2}, data={"micro_batches": 2, "max_bad": 0.5})
        data = self.folder / "job/data"
        (data / "images/4_0.png").write_bytes(b"not a picture")
        (data / "images/7_0.png").unlink()
        lines = (data / "train.jsonl").read_text().splitlines()
        lines[12] = '{"id": "12", "conversations": [{"from": "human", "value": "a"}, {"from": "human", "value": "b"}]}'
        (data / "train.jsonl").write_text("\n".join(lines) + "\n")
        result = lfrun(job)
        self.assertEqual(result.returncode, 0, result.stderr)
        skipped = [json.loads(line) for line in (self.folder / "job/run/skipped.jsonl").read_text().splitlines()]
        text = json.dumps(skipped)
        for place in ("train.jsonl:5", "train.jsonl:8", "train.jsonl:13"):
            self.assertIn(place, text)
        counted = metrics(self.folder / "job/run")[-1]["samples_in_all"]
        self.assertEqual((counted["bad"], counted["too_long"], counted["cut"]), (len(skipped), 0, 0))
        self.assertIn(f"of {counted['seen']} samples since the first step: {len(skipped)} bad; skipped.jsonl lists",
                      result.stderr)

    def test_samples_that_are_cut_or_too_long_are_counted_for_people_too(self):
        job = self.job(samples=40, data={"max_tokens": 120, "max_bad": 1.0}, job={"steps": 3})
        for too_long, said in (("cut", "cut to data.max_tokens = 120"), ("skip", "longer than data.max_tokens = 120")):
            run = self.folder / too_long
            result = lfrun(job, "--set", f"data.too_long={too_long}", "--set", f"job.output={run}")
            self.assertEqual(result.returncode, 0, result.stderr)
            counted = metrics(run)[-1]["samples_in_all"]
            many = counted["cut" if too_long == "cut" else "too_long"]
            self.assertGreater(many, 0)
            self.assertRegex(result.stderr, f"of {counted['seen']} samples since the first step: .*{many} {said}")

    def test_more_bad_samples_than_allowed_stop_the_run_with_65(self):
        job = self.job(samples=40, data={"max_bad": 0.0})
        for picture in (self.folder / "job/data/images").iterdir():
            picture.write_bytes(b"\x89PNG\r\n\x1a\nbroken")
        self.refuses(lfrun(job), 65, "train.jsonl:")

    def test_a_picture_that_declares_50000_by_50000_pixels_in_a_kilobyte_is_named_and_not_allocated(self):
        job = self.job(samples=40, data={"max_bad": 0.5})
        picture = self.folder / "job/data/images/1_0.png"
        write_png(picture, 28, 28, 1)
        head = bytearray(picture.read_bytes())
        head[16:24] = (50000).to_bytes(4, "big") * 2
        picture.write_bytes(bytes(head))
        result = lfrun(job)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("1_0.png", (self.folder / "job/run/skipped.jsonl").read_text())
        self.assertLess(max(row["peak_memory_bytes"] for row in metrics(self.folder / "job/run")), 1 << 30)

    def contents(self, folder):
        return {str(file): file.read_bytes() for file in folder.rglob("*") if file.is_file()}

    def test_a_second_run_on_the_same_directory_is_refused_in_one_line_and_writes_nothing_there(self):
        job = self.job(job={"steps": 400})
        first = subprocess.Popen(lfrun.command(job), stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 40
            while time.monotonic() < deadline and not (self.folder / "job/run/metrics.jsonl").exists():
                time.sleep(0.01)
            first.send_signal(signal.SIGSTOP)  # and its worker, which writes
            worker = int(pathlib.Path(f"/proc/{first.pid}/task/{first.pid}/children").read_text().split()[0])
            os.kill(worker, signal.SIGSTOP)
            before = self.contents(self.folder / "job/run")
            for processes in ("1", "2"):
                second = lfrun(job, "-n", processes)
                self.assertEqual(second.returncode, 73, second.stderr)
                self.assertEqual(second.stderr.count("\n"), 1, second.stderr)
                self.assertIn(f"{self.folder / 'job/run'}: another run works here (process {first.pid} on ", second.stderr)
            codes, texts = self.by_hand(job, [], [])
            self.assertEqual(codes, [73, 69], texts)
            for text in texts:
                self.assertEqual(text.count("\n"), 1, text)
                self.assertIn("another run works here", text)
            self.assertEqual(self.contents(self.folder / "job/run"), before)
        finally:
            first.kill()
            first.wait()

    def test_a_killed_worker_takes_the_job_down_with_its_rank_signal_and_last_lines(self):
        job = self.job(job={"steps": 2000}, launch={"processes": 2}, data={"micro_batches": 2})
        launcher = subprocess.Popen(lfrun.command(job), stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 40
        while time.monotonic() < deadline and not (self.folder / "job/run/metrics.jsonl").exists():
            time.sleep(0.01)
        children = pathlib.Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()
        self.assertEqual(len(children), 2)
        os.kill(int(children[1]), signal.SIGKILL)
        _, text = launcher.communicate(timeout=30)
        self.assertEqual(launcher.returncode, 128 + signal.SIGKILL, text)
        self.assertIn("rank 1", text)
        self.assertIn("SIGKILL", text)
        state = json.loads((self.folder / "job/run/status.json").read_text())["state"]
        self.assertIn("rank 1 of 2 was killed by SIGKILL", state)
        for child in children:
            self.assertFalse(pathlib.Path(f"/proc/{child}").exists())

    def test_a_killed_run_goes_on_from_its_last_checkpoint_with_the_same_bits(self):
        straight = write_job(self.folder / "straight", job={"steps": 30})
        self.assertEqual(lfrun(straight).returncode, 0)
        job = self.job(job={"steps": 30}, checkpoint={"every_steps": 3})
        run = self.folder / "job/run"
        process = subprocess.Popen(lfrun.command(job), stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 40
        while time.monotonic() < deadline and not list(run.glob("ckpt/step-*")):
            time.sleep(0.005)
        process.kill()
        process.wait()
        result = lfrun(job)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("resumed after step", result.stderr)
        self.assertEqual([row["loss"] for row in metrics(run)],
                         [row["loss"] for row in metrics(self.folder / "straight/run")])

    def with_small_disk(self, folder, size, command):
        """The command's result where `folder` is a file system of its own, and what is in the run directory after it."""
        folder.mkdir(parents=True)
        run = self.folder / "job/run"
        inside = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c",  # there anyone may mount
                  f'mount -t tmpfs -o size="$1" tmpfs "{folder}" || exit 99; shift; "$@"; code=$?; '
                  f'ls -R "{run}/model" "{run}/ckpt"; grep -h state "{run}/status.json"; exit $code', "sh", size]
        if subprocess.run([*inside, "true"], capture_output=True).returncode == 99:
            self.skipTest("no file system can be mounted in a user namespace here")
        return subprocess.run([*inside, *command], capture_output=True, text=True, timeout=240)

    # 1.6 MB hold the model of 0.3 MB, and not the checkpoint's 0.9 with its margin of 1.
    def test_a_disk_that_is_full_at_the_end_leaves_the_model_and_says_how_to_go_on(self):
        job, run = self.job(), self.folder / "job/run"
        result = self.with_small_disk(run, "1600k", lfrun.command(job))
        self.refuses(result, 74, "the checkpoint of step 6, the last, could not be written:", "free some space",
                     f"the model of that step is whole in {run}/model",
                     "then the same command starts again at the first step, as no checkpoint is there")
        self.assertIn("model.safetensors", result.stdout)
        self.assertIn("failed: ", result.stdout)
        self.assertNotIn("step-", result.stdout)

    def test_a_model_that_cannot_be_written_is_written_by_the_same_command_from_the_last_checkpoint(self):
        job, run = self.job(), self.folder / "job/run"
        result = self.with_small_disk(run / "model", "16k", lfrun.command(job))  # which cannot be renamed
        self.assertNotEqual(result.returncode, 0, result.stdout)
        self.assertIn("the checkpoint of step 6 is whole: the same command then writes the model alone", result.stderr)
        self.assertIn("failed: ", result.stdout)
        again = lfrun(job)
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertTrue((run / "model/model.safetensors").exists())
        self.assertEqual(len(metrics(run)), 6)

    def test_a_stopped_worker_is_named_by_those_that_wait_for_it(self):
        job = self.job(launch={"processes": 2}, reduction={"timeout_seconds": 4}, job={"steps": 100000})
        with subprocess.Popen(lfrun.command(job), stderr=subprocess.PIPE, text=True) as launcher:
            deadline = time.monotonic() + 40
            while time.monotonic() < deadline and not (self.folder / "job/run/metrics.jsonl").exists():
                time.sleep(0.01)
            children = pathlib.Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()
            os.kill(int(children[1]), signal.SIGSTOP)
            _, text = launcher.communicate(timeout=60)
        self.assertEqual(launcher.returncode, 69, text)
        self.assertIn("rank 1 did not take part within 4 s, and is silent", text)

    @unittest.skipUnless(SLOW_DISK.exists(), "a sanitizer's runtime must come before what is preloaded")
    def test_ranks_wait_for_the_one_that_is_at_its_disk_however_long_that_takes(self):
        job = self.job(job={"steps": 3}, reduction={"timeout_seconds": 1}, checkpoint={"every_steps": 2})

        def slowly(**seconds):
            return lfrun("-n", "2", job, env={**os.environ, "LD_PRELOAD": str(SLOW_DISK), **seconds})
        log = self.folder / "job/run/log/rank1.log"
        for work, seconds in (("saving step 3", {"SLOW_FSYNC": "6"}),
                              ("checking every byte of the newest checkpoint",
                               {"SLOW_OPEN": "6", "SLOW_NAME": "optimizer.safetensors"}),
                              ("writing the model directory", {"SLOW_FSYNC": "6"})):
            with self.subTest(work):
                result = slowly(**seconds)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn("model directory: ", result.stderr)
                self.assertIn(f"waits: rank 0 is {work} (", log.read_text())

    def test_another_job_is_not_resumed_from_this_ones_checkpoint(self):
        job = self.job()
        self.assertEqual(lfrun(job).returncode, 0)
        self.refuses(lfrun(job, "--set", "optimizer.learning_rate=1e-5", "--set", "job.steps=9"), 78, "--fresh")

    def test_a_run_does_not_go_on_over_other_data_than_it_began_with(self):
        job = self.job(samples=60)
        self.assertEqual(lfrun(job).returncode, 0)
        train, state = self.folder / "job/data/train.jsonl", self.folder / "job/run/ckpt/step-00000006/trainer.json"
        self.assertEqual(json.loads(state.read_text())["settings"]["data set samples"], "60")
        text = train.read_text()
        cut = "".join(text.splitlines(keepends=True)[:50])
        letter = text.index('"value": "', len(text) // 2) + len('"value": "')
        edited = text[:letter] + ("b" if text[letter] != "b" else "c") + text[letter + 1:]
        for now, said in ((cut, "the data set had 60 samples, has 50"), (edited, "still has 60 samples, but other bytes")):
            train.write_text(now)
            for command in ([job, "--set", "job.steps=9"], ["check", job, "--set", "job.steps=9"]):
                self.refuses(lfrun(*command), 78, "data.path: ", said, "restore its files", "--fresh")
        train.write_text(text)
        result = lfrun(job, "--set", "job.steps=9")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("resumed after step 6", result.stderr)

    def test_what_a_family_refuses_in_a_configuration_is_told_with_its_path_and_the_families_that_take_it(self):
        job = self.job()
        config = json.loads((self.folder / "job/config.json").read_text())
        other = self.folder / "job/other.json"
        other.write_text(json.dumps({**config, "num_attention_heads": "four"}))
        for command in (["check", job], [job]):
            result = lfrun(*command, "--set", f"model.config={other}")
            self.refuses(result, 78, f"{other}: num_attention_heads: expected an integer", '"four"')
            self.assertNotIn("config.json", result.stderr)
        other.write_text(json.dumps(config))
        self.refuses(lfrun("check", job, "--set", f"model.config={other}", "--set", "model.family=internvl"), 78,
                     f"{other}: model_type: expected internvl", "of the installed families qwen_vl takes it")
        other.write_text(json.dumps({**config, "model_type": "gemma3"}))
        self.refuses(lfrun("check", job, "--set", f"model.config={other}"), 78, '"gemma3"',
                     "none of the other installed families takes it (causal_lm, compose, ")

    def test_fresh_starts_over_in_a_new_directory_and_leaves_the_old_one(self):
        job = self.job()
        self.assertEqual(lfrun(job).returncode, 0)
        before = (self.folder / "job/run/metrics.jsonl").read_bytes()
        result = lfrun(job, "--fresh")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual((self.folder / "job/run/metrics.jsonl").read_bytes(), before)
        self.assertEqual((self.folder / "job/run-2/metrics.jsonl").read_text().count("\n"), 6)

    def go_on_of(self, text):
        """The words of the command that a fresh run names to go on with it."""
        commands = {line[line.index("lfrun ", line.index("go on")):] for line in text.splitlines() if "--fresh" in line and "go on" in line}
        self.assertEqual(len(commands), 1, text)
        return shlex.split(commands.pop())[1:]

    def test_a_fresh_run_names_the_command_that_goes_on_with_it_at_its_beginning_and_at_its_end(self):
        job = self.job()
        self.assertEqual(lfrun(job).returncode, 0)
        fresh = lfrun(job, "--set", 'job.name="a b"', "--fresh")
        self.assertEqual(fresh.returncode, 0, fresh.stderr)
        self.assertIn("--fresh: a new run", fresh.stderr)
        self.assertIn("--fresh starts over; to go on with this run: lfrun ", fresh.stderr)
        words = self.go_on_of(fresh.stderr)
        self.assertNotIn("--fresh", words)
        again = lfrun(*words, "--set", "job.steps=8")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn("resumed after step 6", again.stderr)
        self.assertEqual((self.folder / "job/run-2/metrics.jsonl").read_text().count("\n"), 8)
        self.assertFalse((self.folder / "job/run-3").exists())
        self.assertNotIn("go on", lfrun(job, "--set", "job.steps=7").stderr)

    def test_a_fresh_run_that_is_asked_to_stop_names_the_command_that_goes_on_with_it(self):
        job = self.job(job={"steps": 5000})
        (self.folder / "job/run").mkdir()
        launcher = subprocess.Popen(lfrun.command(job, "--fresh"), stderr=subprocess.PIPE, text=True)
        rows, deadline = self.folder / "job/run-2/metrics.jsonl", time.monotonic() + 40
        while time.monotonic() < deadline and not (rows.exists() and rows.read_text().count("\n") >= 2):
            time.sleep(0.05)
        launcher.send_signal(signal.SIGTERM)
        text = launcher.communicate(timeout=40)[1]
        self.assertEqual(launcher.returncode, 75, text)
        said = next(line for line in text.splitlines() if "asked to stop: saved after step" in line)
        self.assertIn(" goes on from there", said)
        self.assertIn(shlex.join(["lfrun", *self.go_on_of(text)]), said)
        self.assertNotIn("the same command", said)

    def test_a_schedule_whose_end_moves_on_resume_is_told_by_the_run_and_by_check(self):
        job = self.job(schedule={"name": "linear", "warmup_fraction": 0.0, "final_fraction": 0.0})
        self.assertEqual(lfrun(job).returncode, 0)
        moved = ("steps: was 6, is 12: the linear schedule now runs to step 12; step 7 has a learning rate of 0.0015, after the "
                 "schedule had ended at 0")
        checked = lfrun("check", job, "--set", "job.steps=12")
        self.assertEqual(checked.returncode, 0, checked.stderr)
        self.assertIn(moved, checked.stdout)
        self.assertNotIn("was 6", lfrun("check", job).stdout)
        more = lfrun(job, "--set", "job.steps=12")
        self.assertEqual(more.returncode, 0, more.stderr)
        self.assertIn(moved, more.stderr)
        self.assertAlmostEqual(metrics(self.folder / "job/run")[6]["lr"], 0.0015)
        plain = write_job(self.folder / "plain")  # constant: nothing moves
        self.assertEqual(lfrun(plain).returncode, 0)
        self.assertNotIn("schedule", lfrun(plain, "--set", "job.steps=9").stderr)

    def test_a_flipped_bit_in_the_only_checkpoint_is_an_error_that_names_the_file(self):
        job = self.job()
        self.assertEqual(lfrun(job).returncode, 0)
        file = self.folder / "job/run/ckpt/step-00000006/optimizer.safetensors"
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 4
        file.write_bytes(bytes(data))
        self.refuses(lfrun(job), 65, "optimizer.safetensors")

    def test_a_run_without_a_supervised_token_trains_nothing_says_so_and_fails(self):
        # Samples are cut before their answers begin.
        job = self.job(job={"steps": 2}, data={"max_tokens": 40, "too_long": "cut", "max_bad": 1.0})
        self.refuses(lfrun(job), 65, "no supervised token", "none of 2 steps trained anything")
        self.assertFalse((self.folder / "job/run/model").exists())
        self.assertTrue(all(row["skipped"] for row in metrics(self.folder / "job/run")))

    def test_data_without_an_answer_to_learn_from_is_refused_before_training(self):
        job = self.job()
        train = self.folder / "job/data/train.jsonl"
        samples = [json.loads(line) for line in train.read_text().splitlines()]
        for sample in samples:
            sample["conversations"] = sample["conversations"][:1]
        train.write_text("".join(json.dumps(sample) + "\n" for sample in samples))
        self.refuses(lfrun(job), 65, "train.jsonl:1", "no message to learn from")

    def test_a_checkpoint_becomes_a_model_directory_by_export(self):
        job = self.job()
        self.assertEqual(lfrun(job).returncode, 0)
        out = self.folder / "exported"
        result = lfrun("export", self.folder / "job/run", out)
        self.assertEqual(result.returncode, 0, result.stderr)
        trained = self.folder / "job/run/model"
        for file in ("model.safetensors", "config.json", "tokenizer.json"):
            self.assertEqual((out / file).read_bytes(), (trained / file).read_bytes())

    def test_export_says_which_newer_checkpoint_it_passes_over(self):
        job = self.job(job={"steps": 4}, checkpoint={"every_steps": 2})
        self.assertEqual(lfrun(job).returncode, 0)
        newest = self.folder / "job/run/ckpt/step-00000004/parameters.safetensors"
        damaged = bytearray(newest.read_bytes())
        damaged[-8:] = b"damaged!"
        newest.write_bytes(damaged)
        result = lfrun("export", self.folder / "job/run", self.folder / "exported")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("step 2", result.stdout)
        self.assertRegex(result.stderr, "(?m)^W .*step-00000004")

    def test_a_trained_directory_is_trained_on_from_its_path_and_written_back_in_its_layout(self):
        job = self.job()
        self.assertEqual(lfrun(job).returncode, 0)
        start = self.folder / "job/run/model"
        text = job.read_text().replace('config = "config.json"', f'path = "{start}"').replace('tokenizer = "tokenizer"\n', "")
        more = self.folder / "job/more.toml"
        more.write_text(text)
        result = lfrun(more, "--set", f"job.output={self.folder / 'more'}", "--set", "job.steps=1",
                       "--set", "optimizer.learning_rate=1e-30")
        self.assertEqual(result.returncode, 0, result.stderr)
        for file in sorted(start.iterdir()):
            self.assertEqual((self.folder / "more/model" / file.name).read_bytes(), file.read_bytes(), file.name)

    def break_tokenizer(self, change):
        file = self.folder / "job/tokenizer/tokenizer.json"
        file.write_text(change(json.loads(file.read_text())))

    def test_a_broken_tokenizer_is_one_error_before_any_sample_in_check_and_in_training(self):
        def other_model(tokenizer):
            tokenizer["model"]["type"] = "Unigram"
            return json.dumps(tokenizer)

        def without_merges(tokenizer):
            del tokenizer["model"]["merges"]
            return json.dumps(tokenizer)

        job = self.job()
        whole = (self.folder / "job/tokenizer/tokenizer.json").read_text()
        for change, text in ((lambda _: "not JSON", "expected a tokenizer.json"), (other_model, "Unigram"),
                             (without_merges, "merges"), (lambda t: "{}", "tokenizer.json:")):
            (self.folder / "job/tokenizer/tokenizer.json").write_text(whole)
            self.break_tokenizer(change)
            for command in (["check", job], [job]):
                result = lfrun(*command)
                self.refuses(result, 78, "model.tokenizer: ", text)
                self.assertNotIn("train.jsonl", result.stderr)
        (self.folder / "job/tokenizer/tokenizer.json").unlink()
        for command in (["check", job], [job]):
            self.refuses(lfrun(*command), 66, "model.tokenizer: ", "tokenizer.json does not exist")

    def test_check_tells_mistakes_of_every_kind_in_one_pass_each_with_its_place(self):
        job = self.job(model={"freeze": ["visoin.*"]}, data={"max_tokenz": 5, "media_root": "nowhere"},
                       balance={"policy": "nosuch"}, optimizer={"beta1": 2})
        blocked = self.folder / "a_file"
        blocked.write_text("")
        result = lfrun("check", job, "--set", f"job.output={blocked / 'run'}")
        self.refuses(result, 78, "max_tokens?", "optimizer.beta1 must be in", "data.media_root: ", "nosuch",
                     '"visoin.*" matches no parameter', "job.output: ", "is not a folder")
        lines = result.stderr.splitlines()
        for text in ("max_tokenz", "optimizer.beta1", "data.media_root:", "balancer plugin nosuch", "model.freeze:"):
            line = next(line for line in lines if text in line)
            self.assertRegex(line, r"job\.toml:\d+:\d+: ")
        self.assertFalse((self.folder / "job/run").exists())

    def test_check_leaves_nothing_behind_and_says_what_a_run_would_go_on_from(self):
        job = self.job()
        self.assertIn("nothing: starts at the first step", lfrun("check", job).stdout)
        self.assertFalse((self.folder / "job/run").exists())
        self.assertEqual(lfrun(job).returncode, 0)
        before = sorted(self.folder.rglob("*"))
        result = lfrun("check", job)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("step 6: ", result.stdout)
        self.assertEqual(sorted(self.folder.rglob("*")), before)
        file = self.folder / "job/run/ckpt/step-00000006/optimizer.safetensors"
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 4
        file.write_bytes(bytes(data))
        self.refuses(lfrun("check", job), 65, "optimizer.safetensors")

    def test_check_sees_that_nothing_can_be_trained(self):
        job = self.job()
        self.refuses(lfrun("check", job, "--set", "data.max_tokens=1"), 78, "--set: data.max_tokens: each of 40 samples")
        for picture in (self.folder / "job/data/images").iterdir():
            picture.unlink()
        self.refuses(lfrun("check", job), 65, "data.path: 2", "of 40 samples looked at are bad", "train.jsonl:2")

    def test_a_step_that_takes_more_than_the_data_is_warned_of_and_a_stop_is_heard_while_it_is_gathered(self):
        job = self.job(data={"micro_batches": 1000000})
        result = lfrun("check", job)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"warning: data.micro_batches = 1000000 .* passes over the data")
        run = subprocess.Popen(lfrun.command(job), stderr=subprocess.PIPE, text=True)
        warned = False
        for line in run.stderr:
            if "results in" in line:
                break
            warned |= "passes over the data" in line
        self.assertTrue(warned)
        run.send_signal(signal.SIGTERM)
        _, text = run.communicate(timeout=30)
        self.assertEqual(run.returncode, 75, text)
        self.assertIn("before the first step", text)

    def test_a_refused_resume_names_what_changed_with_both_values(self):
        job = self.job()
        self.assertEqual(lfrun(job).returncode, 0)
        for command in (["check", job], [job]):
            result = lfrun(*command, "--set", "optimizer.learning_rate=1e-5", "--set", "data.shuffle=false", "--set",
                           "job.steps=9")
            self.refuses(result, 78, "optimizer.learning_rate: was 0.003, is 1e-05", "data.shuffle: was true, is false",
                         "--fresh")
            self.assertNotIn("weight_decay", result.stderr)

    def test_resume_false_beside_broken_checkpoints_does_not_ask_to_mend_them_and_export_does_not_speak_of_fresh(self):
        job = self.job()
        self.assertEqual(lfrun(job).returncode, 0)
        (self.folder / "job/run/ckpt/step-00000006/manifest.json").unlink()
        self.refuses(lfrun(job, "--set", "checkpoint.resume=false"), 78, "checkpoint.resume: ", "--fresh")
        result = lfrun("export", self.folder / "job/run", self.folder / "out")
        self.refuses(result, 65, "expected a whole checkpoint", "manifest.json")
        self.assertNotIn("--fresh", result.stderr)

    def test_weights_that_are_not_finite_are_refused_by_the_name_of_their_tensor(self):
        job = self.job()
        self.assertEqual(lfrun(job).returncode, 0)
        start = self.folder / "job/run/model"
        file = start / "model.safetensors"
        data = bytearray(file.read_bytes())
        size = int.from_bytes(data[:8], "little")
        header = json.loads(data[8:8 + size])
        name = sorted(name for name in header if name.endswith("q_proj.weight"))[-1]
        at = 8 + size + header[name]["data_offsets"][0]
        data[at:at + 4] = struct.pack("<f", float("nan"))
        file.write_bytes(bytes(data))
        text = job.read_text().replace('config = "config.json"', f'path = "{start}"').replace('tokenizer = "tokenizer"\n', "")
        (self.folder / "job/more.toml").write_text(text)
        self.refuses(lfrun(self.folder / "job/more.toml", "--fresh"), 65, name, "nan")

    def test_loaded_weights_whose_first_loss_is_a_guess_are_warned_of(self):
        doubt = "is that of a guess among the vocabulary's 272 tokens (ln = 5.606), though weights were loaded"
        drawn = lfrun(self.job(optimizer={"learning_rate": 1e-9}, job={"steps": 1}))
        self.assertEqual(drawn.returncode, 0, drawn.stderr)
        self.assertNotIn("is that of a guess", drawn.stderr, "weights just drawn may guess")
        path = str(self.folder / "job/run/model")
        again = write_job(self.folder / "again", job={"steps": 12}, optimizer={"learning_rate": 3e-2})
        text = again.read_text().replace('config = "config.json"', f'path = "{path}"').replace('tokenizer = "tokenizer"\n', "")
        again.write_text(text)
        guessing = lfrun(again)
        self.assertEqual(guessing.returncode, 0, guessing.stderr)
        self.assertEqual(guessing.stderr.count(doubt), 1, guessing.stderr)
        self.assertLess(metrics(self.folder / "again/run")[-1]["loss"], 0.8 * 5.606)
        more = self.folder / "again/more.toml"
        more.write_text(text.replace(path, str(self.folder / "again/run/model")))
        learnt = lfrun(more, "--fresh")
        self.assertEqual(learnt.returncode, 0, learnt.stderr)
        self.assertNotIn("is that of a guess", learnt.stderr)

    def test_a_tokenizer_that_is_not_there_hides_no_mistake_of_the_model(self):
        job = self.job()
        config = self.folder / "job/config.json"
        config.write_text(json.dumps({**json.loads(config.read_text()), "num_hidden_layers": 10 ** 7}))
        (self.folder / "job/tokenizer/tokenizer.json").unlink()
        result = lfrun("check", job)
        self.refuses(result, 66, "model.tokenizer: ", "tokenizer.json does not exist", "num_hidden_layers", "2 mistakes")
        self.assertNotIn("train.jsonl", result.stderr)

    def test_words_and_places_of_a_user_that_lead_nowhere_are_no_bug_of_ours(self):
        job = self.job()
        self.assertEqual(lfrun(job, "--set", "job.steps=1").returncode, 0)
        run = self.folder / "job/run"
        self.refuses(lfrun("export", run, ""), 64, "got an empty text for the folder to write")
        self.refuses(lfrun("export", "", "x"), 64, "got an empty text for the checkpoint")
        self.refuses(lfrun("export", run, run / (300 * "y")), 74, "File name too long")
        self.refuses(lfrun("parity", ""), 64, "got an empty text")
        for command in (["check", "job.toml"], ["parity", "cases"], ["export", "run", "out"], ["balance", "job.toml", "--ranks", "2"]):
            gone = self.folder / "gone"
            gone.mkdir()
            words = shlex.join([str(lfrun.program.absolute()), *command])
            result = subprocess.run(["bash", "-c", f"rmdir {gone}; exec {words}"], cwd=gone, capture_output=True, text=True)
            self.refuses(result, 66, "the working directory cannot be found")

    def test_a_check_whose_output_cannot_be_written_is_74_and_no_bug(self):
        with open("/dev/full", "w") as full:
            result = subprocess.run(lfrun.command("check", self.job()), stdout=full, stderr=subprocess.PIPE, text=True)
        self.refuses(result, 74, "No space left on device")

    def test_a_limit_on_the_size_of_files_is_a_warning_at_a_checkpoint_and_no_signal(self):
        job = self.job(checkpoint={"every_steps": 2, "export_model": False})
        words = shlex.join([str(lfrun.program), "--plugin-dir", str(build / "plugins"), str(job)])
        result = subprocess.run(["bash", "-c", f"ulimit -f 64; exec {words}"], capture_output=True, text=True)
        self.assertIn("checkpoint of step 2", result.stderr)
        self.assertIn("File too large", result.stderr)
        self.assertIn("step 6/6", result.stderr)
        self.assertIn(result.returncode, (73, 74), result.stderr)

    def test_absurd_sizes_are_refused_at_once_with_their_bounds(self):
        job = self.job()
        config = self.folder / "job/config.json"
        model = json.loads(config.read_text())
        model["num_hidden_layers"] = 10 ** 7
        config.write_text(json.dumps(model))
        self.refuses(lfrun("check", job), 78, "num_hidden_layers", "[1, 4096]", "10000000")

    def test_all_mistakes_of_a_model_configuration_and_its_options_are_told_in_one_pass_with_their_places(self):
        job = self.job()
        config = self.folder / "job/config.json"
        good = json.loads(config.read_text())
        model = json.loads(config.read_text())
        del model["num_hidden_layers"]
        model.update({"hidden_size": "wide", "rms_norm_eps": 0, "hidden_act": "gelu", "novel": 3, "image_token_id": 10 ** 6})
        model["vision_config"].update({"depth": -1, "hidden_act": "gelu", "new_trick": "yes"})
        config.write_text(json.dumps(model))
        wrong = ["--set", "model.options.router_aux_loss=3", "--set", "model.options.bar=2"]
        where = [f"{config}: num_hidden_layers: expected an integer in [1, 4096], as sizes must be stated, got nothing",
                 f'{config}: hidden_size: expected an integer in [1, 1073741824], got "wide"', f"{config}: rms_norm_eps: ",
                 f"{config}: hidden_act: ", f"{config}: novel = 3: ", f"{config}: image_token_id: ",
                 f"{config}: vision_config.depth: ", f"{config}: vision_config.hidden_act: ", f"{config}: vision_config.new_trick = ",
                 "--set: model.options.router_aux_loss: ", "--set: model.options.bar: "]
        checked = lfrun("check", job, *wrong)
        self.refuses(checked, 78, f"not valid: {len(where)} mistakes")
        lines = checked.stderr.splitlines()
        for place in where:
            self.assertEqual(sum(place in line for line in lines), 1, (place, checked.stderr))
        self.refuses(lfrun(job, *wrong), 78, *(place.removeprefix("--set: ") for place in where))
        # What a family takes for a number that is left out is told with the file's path too, by both.
        del good["rms_norm_eps"]
        config.write_text(json.dumps(good))
        taken = f"{config}: left out and taken as the reference's class has them: rms_norm_eps 1e-05"
        for told in (lfrun("check", job), lfrun(job, "--set", "job.steps=1")):
            self.assertEqual(told.returncode, 0, told.stderr)
            self.assertIn(taken, told.stderr)

    def test_patterns_that_match_nothing_are_all_told_at_once(self):
        job = self.job()
        groups = ('optimizer.groups=[{parameters=["*.nothing"], weight_decay=0.0}, {parameters=["*.none"], weight_decay=0.0}]')
        result = lfrun("check", job, "--set", 'model.freeze=["visio", "langage"]')
        self.refuses(result, 78, 'model.freeze: "visio" ', 'model.freeze: "langage" ', "not valid: 2 mistakes")
        result = lfrun("check", job, "--set", groups)
        self.refuses(result, 78, '"*.nothing" matches no parameter', '"*.none" matches no parameter', "not valid: 2 mistakes")

    def test_a_killed_leader_leaves_a_status_that_says_so(self):
        job = self.job(job={"steps": 2000})
        launcher = subprocess.Popen(lfrun.command(job), stderr=subprocess.PIPE, text=True)
        status = self.folder / "job/run/status.json"
        deadline = time.monotonic() + 40
        while time.monotonic() < deadline and not status.exists():
            time.sleep(0.01)
        leader = json.loads(status.read_text())
        self.assertEqual(leader["state"], "running")
        os.kill(leader["process"], signal.SIGKILL)
        _, text = launcher.communicate(timeout=30)
        self.assertEqual(launcher.returncode, 128 + signal.SIGKILL, text)
        self.assertIn("rank 0 of 1 was killed by SIGKILL", json.loads(status.read_text())["state"])

    def test_a_worker_whose_store_never_comes_hears_a_stop(self):
        job = self.job()
        environment = {**os.environ, "RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2",
                       "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
        worker = subprocess.Popen(lfrun.command(job), stderr=subprocess.PIPE, text=True, env=environment)
        deadline = time.monotonic() + 40  # until it is to wait: it ignores SIGPIPE from where its handler for waiting is there
        ignored = 1 << (signal.SIGPIPE - 1)
        while time.monotonic() < deadline:
            line = next(l for l in pathlib.Path(f"/proc/{worker.pid}/status").read_text().splitlines() if "SigIgn" in l)
            if int(line.split()[1], 16) & ignored:
                break
            time.sleep(0.01)
        worker.send_signal(signal.SIGTERM)
        _, text = worker.communicate(timeout=30)
        self.assertEqual(worker.returncode, 75, text)
        self.assertIn("MASTER_PORT=1", text)
        self.assertNotIn("c10d", text)

    def test_a_case_folder_that_is_not_there_is_said_once_and_no_plugin_is_blamed(self):
        plugin = build / "plugins/qwen_vl.lfplugin.so"
        for program in ([lfrun.program, "plugins", "verify"], [build / "bin/lf_conformance_kit"]):
            for case, text in (("/nonexistent/case", "--case: /nonexistent/case does not exist"),
                               (self.folder, f"--case: {self.folder} has no file config.json")):
                result = subprocess.run([*program, "--case", case, plugin], capture_output=True, text=True, timeout=60)
                self.refuses(result, 66, text, "expected a folder with config.json and samples.jsonl")
                self.assertEqual(result.stdout, "")

    def by_hand(self, job, *words_of_ranks, folders=None):
        """One worker for each list of words, told of each other by the environment; their exit codes and stderr.
        `folders`: where each is started."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        size = str(len(words_of_ranks))
        workers = [subprocess.Popen(lfrun.command(job, *words), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                    cwd=folders[rank] if folders else None,
                                    env={**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": size,
                                         "LOCAL_WORLD_SIZE": size, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port})
                   for rank, words in enumerate(words_of_ranks)]
        try:
            texts = [worker.communicate(timeout=60)[1] for worker in workers]
        finally:
            for worker in workers:
                worker.kill()
        return [worker.returncode for worker in workers], texts

    def test_ranks_that_were_given_different_jobs_end_at_the_start_with_the_option_and_both_values(self):
        job = self.job(job={"steps": 2}, data={"micro_batches": 2})
        for option, first, second in (("optimizer.learning_rate", "0.003", "0.01"), ("job.steps", "2", "3"),
                                      ("data.prefetch_steps", "2", "7"), ("checkpoint.every_steps", "0", "1"),
                                      ("job.output", f'"{self.folder / "job/run"}"', f'"{self.folder / "other"}"')):
            codes, texts = self.by_hand(job, [], ["--set", f"{option}={second}"])
            self.assertEqual(codes, [78, 78], texts)
            for text in texts:
                self.assertEqual(text.count("\n"), 1, text)
                self.assertIn(f"{option}: expected the same on every rank, got {first} on rank 0 and {second} on rank 1",
                              text)
            self.assertIn("--set: ", texts[1])
        codes, texts = self.by_hand(job, [], ["--fresh"])
        self.assertEqual(codes, [78, 78], texts)
        self.assertIn("--fresh: expected the same", texts[0])
        self.assertFalse((self.folder / "job/run").exists())
        self.assertFalse((self.folder / "other").exists())

    def test_ranks_whose_copies_of_one_data_file_differ_end_at_the_start_with_its_path_and_the_rank(self):
        job = self.job(job={"steps": 2}, data={"micro_batches": 2, "path": "/proc/self/cwd/train.jsonl",
                                               "media_root": str(self.folder / "job/data")})
        text = (self.folder / "job/data/train.jsonl").read_text()
        letter = text.index('"value": "', len(text) // 2) + len('"value": "')
        stale = text[:letter] + ("b" if text[letter] != "b" else "c") + text[letter + 1:]
        folders = [self.folder / "one", self.folder / "other"]
        for folder in folders:
            folder.mkdir()
        (folders[0] / "train.jsonl").write_text(text)
        for theirs, told in ((stale, "got 40 samples with hash "), ("".join(text.splitlines(True)[:30]), "and 30 samples with hash ")):
            (folders[1] / "train.jsonl").write_text(theirs)
            codes, texts = self.by_hand(job, [], [], folders=folders)
            self.assertEqual(codes, [78, 78], texts)
            for said in (texts[0], (self.folder / "job/run/log/rank1.log").read_text()):
                self.assertIn("data.path: /proc/self/cwd/train.jsonl: expected the same bytes on every rank", said)
                self.assertIn(told, said)
                self.assertIn("on rank 1; give every host the same copy", said)
        (folders[1] / "train.jsonl").write_text(text)
        codes, texts = self.by_hand(job, [], [], folders=folders)
        self.assertEqual(codes, [0, 0], texts)

    def test_what_a_host_decides_for_itself_may_differ_between_ranks(self):
        job = self.job(job={"steps": 1}, data={"micro_batches": 2})
        codes, texts = self.by_hand(job, [], ["--set", "data.workers=1", "--set", "launch.threads=2"])
        self.assertEqual(codes, [0, 0], texts)

    def test_check_refuses_bad_samples_that_would_end_the_run_and_warns_of_fewer(self):
        job = self.job(samples=200, data={"max_bad": 0.001}, job={"steps": 400})
        pictures = self.folder / "job/data/images"
        for sample in range(1, 200, 3):
            (pictures / f"{sample}_0.png").unlink()
        refused = lfrun("check", job)
        self.refuses(refused, 65, "job.toml:", "data.path: ", "looked at", "data.max_bad")
        self.assertNotIn("job file is valid", refused.stdout)
        few = write_job(self.folder / "few", samples=40, data={"max_bad": 0.001})
        (self.folder / "few/data/images/4_0.png").unlink()
        result = lfrun("check", few, "--set", "job.steps=0", "--set", "job.epochs=1")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("warning: 1 bad, 2.5% of those looked at, where data.max_bad is 0.001: the run passes over at most 10 "
                      "of the 40 samples that it meets, and ends with code 65 at more", result.stdout)
        self.assertEqual(lfrun(few, "--set", "job.steps=0", "--set", "job.epochs=1").returncode, 0)

    def test_check_chooses_the_device_as_the_run_would_names_it_and_refuses_what_it_cannot_have(self):
        job = self.job()
        self.assertIn("device        cpu: named by --set; 1 device found",
                      lfrun("check", job, "--set", "device.name=cpu").stdout)
        hidden = {**os.environ, "LF_DEVICE": "cuda", "CUDA_VISIBLE_DEVICES": ""}
        refused, trained = (lfrun(*command, env=hidden) for command in (["check", job], [job]))
        for result in (refused, trained):
            self.refuses(result, 69, "LF_DEVICE: device cuda: ", "finds no device")
        self.assertNotIn("job file is valid", refused.stdout)
        for option in ("reduction.transport", "optimizer.memory"):
            self.refuses(lfrun("check", job, "--set", f"{option}=device"), 69, f"--set: {option}: expected the")

    def test_a_failed_check_ends_with_how_many_mistakes_there_are_after_its_report(self):
        job = self.job(optimizer={"beta1": 2})
        for sets, told in (((), "E not valid: 1 mistake"), (("--set", "model.freeze=visoin.*"), "E not valid: 2 mistakes"),
                           (("--set", "data.packing=no"), "E not valid: 2 mistakes")):
            result = subprocess.run(lfrun.command("check", job, *sets), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                    text=True, timeout=60)
            self.assertEqual(result.returncode, 78, result.stdout)
            self.assertEqual(result.stdout.splitlines()[-1], told)
            self.assertLess(result.stdout.index("resumes from  "), result.stdout.index("optimizer.beta1"))
        job.write_text("[job\n")
        self.assertEqual(lfrun("check", job).stderr.splitlines()[-1], "not valid: 1 mistake")

    def test_sizes_that_no_memory_holds_are_refused_with_the_parameter_that_goes_beyond(self):
        config = json.loads(json.dumps(INTERNVL))
        config["text_config"]["hidden_size"] = config["text_config"]["intermediate_size"] = 1 << 30
        job = write_job(self.folder / "job", config=config, model={"family": "internvl"})
        self.refuses(lfrun("check", job), 78, "expected sizes of a model that memory can hold, got ", " elements with parameter ")

    def test_check_accepts_the_job_and_tells_memory_by_part(self):
        result = lfrun("check", self.job())
        self.assertEqual(result.returncode, 0, result.stderr)
        for text in ("optimizer moments", "activations", "checkpoint", "job file is valid"):
            self.assertIn(text, result.stdout)

    def test_check_estimates_a_full_micro_batch_though_it_looks_at_few_samples(self):
        job = self.job()

        def activations(tokens):
            result = lfrun("check", job, "--set", f"data.max_tokens={tokens}", "--set", "data.micro_batches=1")
            self.assertEqual(result.returncode, 0, result.stderr)
            line = next(line.split() for line in result.stdout.splitlines() if "activations" in line)
            return float(line[1]) * {"kB": 1e3, "MB": 1e6, "GB": 1e9}[line[2]]
        few, many = activations(16_384), activations(131_072)
        self.assertAlmostEqual(many / few, 8, delta=0.8, msg="eight times the tokens, eight times the activations")


if __name__ == "__main__":
    unittest.main()
