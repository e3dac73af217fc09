"""Data that can only be read once, a pipe or a tar archive, trains as the same samples in a file do."""
import hashlib
import io
import json
import os
import pathlib
import shutil
import sys
import tarfile
import tempfile
import threading
import unittest

from tiny_job import Lfrun, metrics, write_job, write_png

lfrun = Lfrun(sys.argv.pop(1))


def weights(run):
    return hashlib.sha256((run / "model/model.safetensors").read_bytes()).hexdigest()


def write_tar(path, folder, lines):
    """As WebDataset has them: KEY.json, and the sample's pictures as KEY.0.png, KEY.1.png beside it."""
    with tarfile.open(path, "w") as tar:
        def add(name, data):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
        for key, line in lines:
            sample = json.loads(line)
            pictures = sample.get("image", [])
            if pictures:
                sample["image"] = [f"{key}.{k}.png" for k in range(len(pictures))]
            add(f"{key}.json", json.dumps(sample).encode())
            for k, picture in enumerate(pictures):
                add(f"{key}.{k}.png", (folder / picture).read_bytes())


class Streams(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        cls.job = write_job(cls.folder / "job", job={"steps": 4}, data={"shuffle": False})
        cls.data = cls.folder / "job/data"
        lines = [(f"{number:04}", line)
                 for number, line in enumerate((cls.data / "train.jsonl").read_text().splitlines())]
        cls.lines = lines
        cls.tar = cls.folder / "all.tar"
        write_tar(cls.tar, cls.data, lines)
        cls.tars = [cls.folder / "even.tar", cls.folder / "odd.tar"]
        for parity, path in enumerate(cls.tars):
            write_tar(path, cls.data, lines[parity::2])
        cls.addressed = cls.train("addressed")

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    @classmethod
    def start(cls, name, *sets):
        words = [word for item in (f"job.output={cls.folder / name}", *sets) for word in ("--set", item)]
        return lfrun(cls.job, *words)

    @classmethod
    def train(cls, name, *sets):
        result = cls.start(name, *sets)
        assert result.returncode == 0, result.stderr
        return cls.folder / name

    def assert_trains_alike(self, run):
        ours, theirs = metrics(run), metrics(self.addressed)
        self.assertEqual(len(ours), len(theirs))
        for a, b in zip(ours, theirs):
            for key in ("loss", "grad_norm"):
                # Ranks and micro-batches only change the order of sums in fp32.
                self.assertLessEqual(abs(a[key] - b[key]), 1e-5 * abs(b[key]), f"step {b['step']}: {key}")
            self.assertEqual(a["supervised_tokens"], b["supervised_tokens"])

    def test_an_archive_with_pictures_on_one_two_and_four_ranks(self):
        for ranks in (1, 2, 4):
            with self.subTest(ranks=ranks):
                self.assert_trains_alike(self.train(f"tar{ranks}", f"data.path={self.tar}", f"launch.processes={ranks}",
                                                    f"data.micro_batches={4 // ranks}"))
        self.assertEqual(weights(self.folder / "tar1"), weights(self.addressed))

    def test_two_archives_read_by_two_ranks_with_a_policy_that_moves_samples(self):
        paths = json.dumps([str(path) for path in self.tars])
        self.assert_trains_alike(self.train("tars", f"data.path={paths}", "launch.processes=2", "data.micro_batches=2",
                                            "balance.policy=minimax"))

    def test_a_pipe_on_two_and_four_ranks(self):
        for ranks in (2, 4):
            with self.subTest(ranks=ranks):
                pipe = self.folder / f"pipe{ranks}"
                os.mkfifo(pipe)

                def feed():
                    try:
                        pipe.write_bytes((self.data / "train.jsonl").read_bytes())
                    except BrokenPipeError:
                        pass  # the run has seen enough

                writer = threading.Thread(target=feed)
                writer.start()
                try:
                    run = self.train(f"piped{ranks}", f"data.path={pipe}", f"data.media_root={self.data}",
                                     f"launch.processes={ranks}", f"data.micro_batches={4 // ranks}")
                finally:
                    os.close(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK))  # lets a writer go that nobody has read
                    writer.join()
                self.assert_trains_alike(run)

    def test_a_resumed_run_equals_the_straight_run_bit_for_bit(self):
        sets = (f"data.path={self.tar}", "launch.processes=2", "data.micro_batches=2")
        straight = self.train("straight", *sets)
        parts = self.train("parts", *sets, "checkpoint.every_steps=2", "checkpoint.keep=5")
        for file in sorted((parts / "ckpt/step-00000004").rglob("*"), reverse=True):
            file.unlink()
        (parts / "ckpt/step-00000004").rmdir()
        result = self.start("parts", *sets, "checkpoint.every_steps=2", "checkpoint.keep=5")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("samples are read and passed over", result.stdout + result.stderr)
        self.assertEqual(weights(parts), weights(straight))

    def test_the_run_ends_where_the_stream_does_and_says_so(self):
        result = self.start("ends", f"data.path={self.tar}", "job.steps=1000")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("the streams ended after 40 samples", result.stdout + result.stderr)
        self.assertTrue((self.folder / "ends/model/model.safetensors").exists())

    def test_a_run_that_ended_with_its_streams_writes_its_model_again_and_trains_nothing(self):
        sets = (f"data.path={self.tar}", "job.steps=1000", "launch.processes=2", "data.micro_batches=2")
        run = self.train("ended", *sets)
        model, rows = weights(run), metrics(run)

        def state_of(checkpoints):
            return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in checkpoints.rglob("*") if path.is_file()}
        checkpoints = state_of(run / "ckpt")
        self.assertTrue(checkpoints)
        shutil.rmtree(run / "model")
        result = self.start("ended", *sets)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("the streams ended after 40 samples", result.stdout + result.stderr)
        self.assertEqual(weights(run), model)
        self.assertEqual(metrics(run), rows)
        self.assertEqual(state_of(run / "ckpt"), checkpoints)
        self.assertEqual(json.loads((run / "status.json").read_text())["state"], "done")

    def test_a_key_that_an_archive_repeats_trains_as_if_the_later_sample_were_named_otherwise(self):
        at, (key, line) = next((at, item) for at, item in enumerate(self.lines)
                               if len(json.loads(item[1]).get("image", [])) == 1)
        # As large as the first one's, which could be trained on it unseen.
        earlier = self.data / json.loads(line)["image"][0]
        size = [int.from_bytes(earlier.read_bytes()[at:at + 4], "big") for at in (16, 20)]
        write_png(self.data / "again.png", *size, 7)
        self.assertFalse((self.data / "again.png").read_bytes() == earlier.read_bytes())
        again = json.dumps(json.loads(line) | {"image": ["again.png"]})
        losses = []
        for name in (key, "renamed"):
            path = self.folder / f"again_{name}.tar"
            write_tar(path, self.data, [*self.lines[:at + 2], (name, again), *self.lines[at + 2:]])
            losses.append([row["loss"] for row in metrics(self.train(f"again_{name}", f"data.path={path}"))])
        self.assertEqual(losses[0], losses[1])

    def test_what_a_stream_cannot_do_is_one_error_before_the_start(self):
        result = self.start("epochs", f"data.path={self.tar}", "job.steps=0", "job.epochs=1")
        self.assertEqual(result.returncode, 78, result.stderr)
        self.assertIn("is a stream, which is read once", result.stderr)

    def test_an_archive_without_a_sample_is_refused_by_check_as_by_the_run(self):
        empty = self.folder / "empty.tar"
        with tarfile.open(empty, "w"):
            pass
        for command in (["check"], ["--fresh"]):
            result = lfrun(*command, self.job, "--set", f"data.path={empty}")
            self.assertEqual(result.returncode, 65, result.stdout + result.stderr)
            self.assertNotIn("a pipe is read", result.stdout)

    def test_check_looks_into_an_archive_and_leaves_a_pipe_alone(self):
        result = lfrun("check", self.job, "--set", f"data.path={self.tar}")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("a stream of tar, read once in its own order", result.stdout)
        self.assertIn("activations", result.stdout)
        pipe = self.folder / "unread"
        os.mkfifo(pipe)
        result = lfrun("check", self.job, "--set", f"data.path={pipe}")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("not looked into: a pipe is read by the run alone", result.stdout)


if __name__ == "__main__":
    unittest.main()
