#!/usr/bin/env python3
"""The illustrated manual's training set as plain text, in documents long enough that attention has to choose: one JSON
object {"text": ...} a line, consecutive sections with their titles, about 2,000 characters.

    manual_text.py TRAIN_JSONL OUT_FOLDER
"""
import json
import pathlib
import sys

CHARACTERS = 2000


def sections(lines):
    for line in lines:
        turns = json.loads(line)["conversations"]
        title = turns[0]["value"].replace("<image>", "").strip().split(": ", 1)[-1]
        text = "\n".join(turn["value"] for turn in turns if turn["from"] == "gpt").strip()
        yield f"{title}\n\n{text}\n"


def documents(texts):
    document = ""
    for text in texts:
        if document and len(document) + len(text) > CHARACTERS:
            yield document
            document = ""
        document += "\n" + text if document else text
    if document:
        yield document


def main():
    source, out = map(pathlib.Path, sys.argv[1:3])
    out.mkdir(parents=True, exist_ok=True)
    part = out / "documents.jsonl.part"
    with source.open(encoding="utf-8") as lines, part.open("w", encoding="utf-8") as to:
        for text in documents(sections(lines)):
            to.write(json.dumps({"text": text}, ensure_ascii=False) + "\n")
    part.rename(out / "documents.jsonl")


if __name__ == "__main__":
    main()
