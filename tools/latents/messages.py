"""Samples in the formats of docs/data.md, read, and written as lines that name files of latents."""
import json
import pathlib
import re


def pairs(path):
    """(id, text, paths of pictures or videos) of each line that has media; sharegpt or messages."""
    root = pathlib.Path(path).parent
    for number, line in enumerate(pathlib.Path(path).read_text().splitlines(), 1):
        sample = json.loads(line)
        name = str(sample.get("id", f"{pathlib.Path(path).stem}-{number}"))
        media = [m for key in ("image", "images", "video", "videos") for m in as_list(sample.get(key))]
        texts = [turn.get("value", turn.get("content")) for turn in sample.get("conversations", sample.get("messages", []))]
        text = next((t for t in texts if isinstance(t, str)), "")
        text = re.sub(r"\s+", " ", re.sub(r"<image>|<video>", " ", text)).strip()
        if media:
            yield name, text, [root / (m["path"] if isinstance(m, dict) else m) for m in media]


def as_list(value):
    return [] if value is None else value if isinstance(value, list) else [value]


def line(name, text, file, kind="image"):
    return json.dumps({"id": name, "messages": [{"role": "user", "content": text or "."},
                                                {"role": "assistant", "content": [{"type": kind, "path": file}]}]},
                      ensure_ascii=False) + "\n"
