"""A case for the conformance kit on qwen_vl: make_case.py FOLDER. The tiny model and tokenizer of the end-to-end tests."""
import json
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "end_to_end"))
from tiny_job import MODEL, write_tokenizer  # noqa: E402

folder = pathlib.Path(sys.argv[1])
shutil.rmtree(folder, ignore_errors=True)
write_tokenizer(folder / "tokenizer")
(folder / "config.json").write_text(json.dumps(MODEL))


def sample(name, question, answer):
    return {"id": name, "messages": [{"role": "user", "content": question},
                                     {"role": "assistant", "train": True, "content": [{"type": "text", "text": answer}]}]}


def text(words):
    return {"type": "text", "text": words}


def picture(size):
    return {"type": "image", "path": f"/painted/by_the_kit_{size}.png"}


# Pictures of several sizes, one sample with two, one without: every component sees atoms of several lengths.
samples = [sample("1", [picture("56x84"), text("What is it?")], "A red layer."),
           sample("2", [text("Say a word")], "watercolour and some more of it"),
           sample("3", [picture("112x56"), picture("56x56"), text("Both?")], "Yes.")]
(folder / "samples.jsonl").write_text("".join(json.dumps(s) + "\n" for s in samples))
