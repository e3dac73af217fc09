#!/usr/bin/env python3
"""The illustrated manual's training set as plain text: one JSON object {"text": title and section} a line.

    manual_text.py TRAIN_JSONL OUT_FOLDER
"""
import json
import pathlib
import sys


def main():
    source, out = map(pathlib.Path, sys.argv[1:3])
    out.mkdir(parents=True, exist_ok=True)
    part = out / "train.jsonl.part"
    with source.open(encoding="utf-8") as lines, part.open("w", encoding="utf-8") as to:
        for line in lines:
            turns = json.loads(line)["conversations"]
            title = turns[0]["value"].replace("<image>", "").strip().split(": ", 1)[-1]
            text = "\n".join(turn["value"] for turn in turns if turn["from"] == "gpt").strip()
            to.write(json.dumps({"text": f"{title}\n\n{text}\n"}, ensure_ascii=False) + "\n")
    part.rename(out / "train.jsonl")


if __name__ == "__main__":
    main()
