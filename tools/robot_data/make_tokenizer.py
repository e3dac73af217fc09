#!/usr/bin/env python3
"""Writes a small tokenizer.json in the layout of Gemma's (letters with byte fallback, blanks as U+2581), for trials
where PaliGemma's own cannot be had. Needs nothing but Python.

    make_tokenizer.py --out data/pusht_tokenizer --text "push the T onto the green target" --text "bring the block to its place"

Merges are those of byte-pair encoding over the prompts that the texts give with states from -1 to 255; a model trained with
it has learnt nothing of a language, and its rows of embeddings are not PaliGemma's.
"""

import argparse
import collections
import json
import random
import re
from pathlib import Path

BLANK = "\u2581"
SPECIAL = ("<pad>", "<eos>", "<bos>", "<unk>")
LETTERS = [chr(code) for code in range(33, 127)]


def prompts(texts: list[str], count: int) -> list[str]:
    numbers = random.Random(0)
    out = []
    for i in range(count):
        state = " ".join(str(numbers.randint(-1, 255)) for _ in range(8))
        out.append(f"Task: {texts[i % len(texts)]}, State: {state};\nAction: ".replace(" ", BLANK))
    return out


def merges(samples: list[str], count: int) -> list[tuple[str, str]]:
    """Within words and numbers. Of all neighbours the most frequent become one, again and again; of equals the first in the order of letters."""
    words = [list(word) for sample in samples for word in re.findall(f"{BLANK}?(?:[A-Za-z]+|[0-9]+)", sample)]
    found = []
    while len(found) < count:
        pairs = collections.Counter(pair for word in words for pair in zip(word, word[1:]))
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        if pairs[best] < 2:
            break
        found.append(best)
        for word in words:
            i = 0
            while i + 1 < len(word):
                if (word[i], word[i + 1]) == best:
                    word[i : i + 2] = [word[i] + word[i + 1]]
                i += 1
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the folder of tokenizer.json")
    parser.add_argument("--text", action="append", required=True, help="an instruction of the data set; several times")
    parser.add_argument("--merges", type=int, default=150, help="at most so many")
    args = parser.parse_args()

    vocabulary = {}
    for entry in [*SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256)), "\n", BLANK, *LETTERS]:
        vocabulary[entry] = len(vocabulary)
    found = merges(prompts(args.text, 64), args.merges)
    for left, right in found:
        vocabulary.setdefault(left + right, len(vocabulary))
    tokenizer = {
        "version": "1.0",
        "added_tokens": [
            {"id": i, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
            for i, text in enumerate(SPECIAL)
        ],
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": BLANK},
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": BLANK}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
            ],
        },
        "model": {
            "type": "BPE",
            "unk_token": "<unk>",
            "fuse_unk": True,
            "byte_fallback": True,
            "vocab": vocabulary,
            "merges": [list(pair) for pair in found],
        },
    }
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / "tokenizer.json"
    path.write_text(json.dumps(tokenizer, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    print(f"{path}: {len(vocabulary)} tokens")


if __name__ == "__main__":
    main()
