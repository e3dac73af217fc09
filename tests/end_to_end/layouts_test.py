"""What must not change a run: being stopped and resumed, the number of ranks, how micro-batches are cut."""
import hashlib
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from tiny_job import Lfrun, metrics, write_job

lfrun = Lfrun(sys.argv.pop(1))


def weights(run):
    return hashlib.sha256((pathlib.Path(run) / "model/model.safetensors").read_bytes()).hexdigest()


class Layouts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        cls.job = write_job(cls.folder / "job")

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def train(self, name, *sets):
        run = self.folder / name
        words = [word for item in (f"job.output={run}", *sets) for word in ("--set", item)]
        result = lfrun(self.job, *words)
        self.assertEqual(result.returncode, 0, result.stderr)
        return run

    def assert_same_curve(self, one, other, relative):
        ours, theirs = metrics(one), metrics(other)
        self.assertEqual(len(ours), len(theirs))
        for a, b in zip(ours, theirs):
            for key in ("loss", "grad_norm"):
                self.assertLessEqual(abs(a[key] - b[key]), relative * abs(a[key]), f"step {a['step']}: {key}")
            self.assertEqual(a["supervised_tokens"], b["supervised_tokens"])

    def test_the_loss_falls_and_the_same_job_gives_the_same_bits(self):
        one, again = self.train("same1"), self.train("same2")
        curve = [row["loss"] for row in metrics(one)]
        self.assertLess(curve[-1], curve[0] - 0.3)
        self.assertEqual([row["loss"] for row in metrics(again)], curve)
        self.assertEqual(weights(one), weights(again))

    def test_the_same_job_gives_the_same_bits_on_several_ranks_that_are_balanced(self):
        sets = ("launch.processes=2", "data.micro_batches=2", "data.packing=false", "job.steps=20")
        one, again = self.train("shared1", *sets), self.train("shared2", *sets)
        self.assertTrue(any(row["balance"]["planned"] for row in metrics(one)))
        self.assertEqual([row["loss"] for row in metrics(one)], [row["loss"] for row in metrics(again)])
        self.assertEqual(weights(one), weights(again))

    def test_a_resumed_run_equals_the_straight_run_bit_for_bit(self):
        straight = self.train("straight", "job.steps=6")
        parts = self.train("parts", "job.steps=6", "checkpoint.every_steps=2", "checkpoint.keep=5")
        for step in (4, 6):  # what came after the checkpoint of step 2 never happened
            for file in sorted((parts / f"ckpt/step-{step:08}").rglob("*"), reverse=True):
                file.unlink()
            (parts / f"ckpt/step-{step:08}").rmdir()
        result = lfrun(self.job, "--set", f"job.output={parts}", "--set", "checkpoint.every_steps=2")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("resumed after step 2", result.stderr)
        self.assertEqual([row["step"] for row in metrics(parts)], [1, 2, 3, 4, 5, 6])
        self.assertEqual([row["loss"] for row in metrics(parts)], [row["loss"] for row in metrics(straight)])
        self.assertEqual(weights(parts), weights(straight))

    def test_one_two_and_four_ranks_give_the_same_curve_up_to_summation_order(self):
        one = self.train("fast1", "data.micro_batches=4")
        # f32 sums in another order: differences start at 1e-7 and grow by the updates.
        self.assert_same_curve(one, self.train("fast2", "launch.processes=2", "data.micro_batches=2"), 2e-5)
        self.assert_same_curve(one, self.train("fast4", "launch.processes=4", "data.micro_batches=1"), 2e-5)

    def test_a_rank_with_text_only_beside_one_with_pictures_equals_one_rank(self):
        def words(i):
            return {"conversations": [{"from": "human", "value": f"Say {i}"}, {"from": "gpt", "value": f"word {i} " * 3}]}

        def picture(i):
            return {"image": f"images/{1 + 3 * (i % 12)}_0.png", "conversations": [
                {"from": "human", "value": f"<image>\nDescribe {i}"}, {"from": "gpt", "value": f"a picture {i}"}]}

        # In file order and one sample a micro-batch: of every four samples two go to each rank.
        data = self.folder / "job/data/sided.jsonl"
        data.write_text("".join(json.dumps(picture(i) if i % 4 > 1 else words(i)) + "\n" for i in range(24)))
        sets = [f"data.path={data}", "data.shuffle=false", "data.packing=false", "balance.policy=none"]
        one = self.train("sided1", *sets, "data.micro_batches=4")
        two = self.train("sided2", *sets, "data.micro_batches=2", "launch.processes=2")
        self.assert_same_curve(one, two, 2e-5)
        start = self.train("sided0", *sets, "data.micro_batches=4", "job.steps=1", "optimizer.learning_rate=0")
        changed = self.changed_tensors(two / "model/model.safetensors", start / "model/model.safetensors")
        self.assertTrue(any(name.startswith("visual.") for name in changed))

    def test_one_and_four_micro_batches_of_the_same_samples_give_the_same_curve(self):
        # Samples of exactly 64 tokens fill micro-batches of 256 and of 1,024 without a gap.
        def write(answer):
            with open(data, "w", encoding="utf-8") as out:
                for i in range(64):
                    text = (f"{i:02}" + "abcdefghijklmnop" * 8)[:answer]
                    out.write(json.dumps({"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "Q"},
                                                       {"role": "assistant", "content": text}]}) + "\n")

        data = self.folder / "even.jsonl"
        sets = [f"data.path={data}", "data.format=messages"]
        write(10)
        measured = self.train("measure", *sets, "data.packing=false", "data.micro_batches=1", "job.steps=1")
        write(10 + 64 - metrics(measured)[0]["tokens"])
        four = self.train("four", *sets, "data.micro_batches=4", "data.max_tokens=256")
        one = self.train("one", *sets, "data.micro_batches=1", "data.max_tokens=1024")
        self.assertEqual(metrics(four)[0]["tokens"], 1024)
        self.assert_same_curve(four, one, 2e-5)

    def test_in_fixed_mode_the_number_of_ranks_changes_no_bit(self):
        runs = [self.train(f"fixed{n}", "reduction.mode=fixed", "launch.threads=0", f"launch.processes={n}",
                           f"data.micro_batches={4 // n}")
                for n in (1, 2, 4)]
        for run in runs[1:]:
            self.assertEqual([row["loss"] for row in metrics(run)], [row["loss"] for row in metrics(runs[0])])
            self.assertEqual(weights(run), weights(runs[0]))

    def test_recomputing_changes_no_bit(self):
        plain = self.train("kept")
        for level in ("inner", "whole"):
            self.assertEqual(weights(self.train(level, f"memory.recompute={level}")), weights(plain))

    def test_a_signal_finishes_the_step_saves_and_exits_75_and_the_same_command_goes_on(self):
        straight = self.train("unbroken", "job.steps=40", "launch.processes=2")
        run = self.folder / "stopped"
        command = lfrun.command(self.job, "--set", f"job.output={run}", "--set", "job.steps=40", "--set", "launch.processes=2")
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 40
        while time.monotonic() < deadline and not ((run / "metrics.jsonl").exists() and len(metrics(run)) >= 3):
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        _, text = process.communicate(timeout=40)
        self.assertEqual(process.returncode, 75, text)
        done = len(metrics(run))
        self.assertLess(done, 40)
        result = subprocess.run(command, capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(f"resumed after step {done}", result.stderr)
        self.assertEqual([row["loss"] for row in metrics(run)], [row["loss"] for row in metrics(straight)])
        self.assertEqual(weights(run), weights(straight))

    def test_freezing_the_tower_leaves_its_weights_untouched(self):
        frozen = self.train("frozen", 'model.freeze=["vision"]', "job.steps=3")
        start = self.train("start", "job.steps=1", "optimizer.learning_rate=0")
        changed = self.changed_tensors(frozen / "model/model.safetensors", start / "model/model.safetensors")
        self.assertTrue(any(name.startswith("model.layers.") for name in changed))
        self.assertFalse([name for name in changed if name.startswith("visual.")])

    def changed_tensors(self, one, other):
        import struct
        def read(path):
            data = path.read_bytes()
            n = struct.unpack("<Q", data[:8])[0]
            header = json.loads(data[8:8 + n])
            return {k: data[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]]
                    for k, v in header.items() if k != "__metadata__"}
        a, b = read(one), read(other)
        self.assertEqual(a.keys(), b.keys())
        return [name for name in a if a[name] != b[name]]


if __name__ == "__main__":
    unittest.main()
