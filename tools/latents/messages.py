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
        turns = sample.get("conversations", sample.get("messages", []))
        said = [item for turn in turns for item in items(turn.get("value", turn.get("content")))]
        media = [m for key in ("image", "images", "video", "videos") for m in as_list(sample.get(key))]
        media += [item["path"] for item in said if item.get("type") in ("image", "video") and "path" in item]
        text = next((item["text"] for item in said if item.get("type") == "text"), "")
        text = re.sub(r"\s+", " ", re.sub(r"<image>|<video>", " ", text)).strip()
        if media:
            yield name, text, [root / (m["path"] if isinstance(m, dict) else m) for m in media]


def items(content):
    """The content of a message as its list of items; a string is one text."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else as_list(content)


def as_list(value):
    return [] if value is None else value if isinstance(value, list) else [value]


def line(name, text, file, kind="image"):
    return json.dumps({"id": name, "messages": [{"role": "user", "content": text or "."},
                                                {"role": "assistant", "content": [{"type": kind, "path": file}]}]},
                      ensure_ascii=False) + "\n"
