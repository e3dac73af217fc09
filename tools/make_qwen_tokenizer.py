#!/usr/bin/env python3
"""Write Qwen2's tokenizer.json from the published vocabulary qwen.tiktoken, and what goes with it for Qwen2.5-VL.

    make_qwen_tokenizer.py qwen.tiktoken OUT_DIR [--internvl]

With --internvl it is InternVL3's: the same ranks, Qwen2.5's further added tokens, and the family's own after them.

A tiktoken file lists byte strings by rank; tokenizer.json wants the merges that make them. The two parts that byte-pair
encoding merges last to reach a token are its merge. Only the standard library is used. Special tokens follow the 151,643
ranks in the order that Qwen2 publishes.
"""
import base64
import json
import pathlib
import sys

PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
           r"|\s+(?!\S)|\s+")
SPECIAL = ("<|endoftext|> <|im_start|> <|im_end|> <|object_ref_start|> <|object_ref_end|> <|box_start|> <|box_end|> "
           "<|quad_start|> <|quad_end|> <|vision_start|> <|vision_end|> <|vision_pad|> <|image_pad|> <|video_pad|>").split()

# Qwen2.5's that follow, which are text to a tokenizer, and what InternVL adds.
PLAIN = ("<tool_call> </tool_call> <|fim_prefix|> <|fim_middle|> <|fim_suffix|> <|fim_pad|> <|repo_name|> <|file_sep|>").split()
INTERNVL = "<img> </img> <IMG_CONTEXT> <quad> </quad> <ref> </ref> <box> </box>".split()


def byte_letters():
    """The printable letter that stands for each byte in byte-level vocabularies."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {byte: chr(byte) for byte in printable}
    spare = 256
    for byte in range(256):
        if byte not in letters:
            letters[byte] = chr(spare)
            spare += 1
    return letters


def last_merge(token, ranks):
    parts = [token[i:i + 1] for i in range(len(token))]
    while len(parts) > 2:
        best = min(range(len(parts) - 1), key=lambda i: ranks.get(parts[i] + parts[i + 1], sys.maxsize))
        if ranks.get(parts[best] + parts[best + 1], sys.maxsize) >= ranks[token]:
            return None
        parts[best:best + 2] = [parts[best] + parts[best + 1]]
    return parts


def main():
    source, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    ranks = {}
    for line in source.read_bytes().splitlines():
        if line:
            token, rank = line.split()
            ranks[base64.b64decode(token)] = int(rank)
    letters = byte_letters()
    spell = lambda token: "".join(letters[byte] for byte in token)
    merges = []
    for token in sorted(ranks, key=ranks.get):
        parts = last_merge(token, ranks) if len(token) > 1 else None
        if parts:
            merges.append([spell(parts[0]), spell(parts[1])])
    internvl = "--internvl" in sys.argv[3:]
    names = SPECIAL + (PLAIN + INTERNVL if internvl else [])
    added = [{"id": len(ranks) + i, "content": text, "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False, "special": text not in PLAIN} for i, text in enumerate(names)]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": PATTERN}, "behavior": "Isolated", "invert": False}, byte_level]},
        "post_processor": byte_level,
        "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
                  "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {spell(token): rank for token, rank in sorted(ranks.items(), key=lambda item: item[1])},
                  "merges": merges},
    }
    out.mkdir(parents=True, exist_ok=True)
    part = out / "tokenizer.json.part"
    part.write_text(json.dumps(tokenizer, ensure_ascii=False), encoding="utf-8")
    config = {
        "tokenizer_class": "Qwen2Tokenizer", "add_prefix_space": False, "add_bos_token": False, "bos_token": None,
        "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "unk_token": None, "errors": "replace",
        "model_max_length": 131072, "clean_up_tokenization_spaces": False, "split_special_tokens": False,
        "additional_special_tokens": [text for text in names[1:] if text not in PLAIN],
    }
    if internvl:
        config["extra_special_tokens"] = {"start_image_token": "<img>", "end_image_token": "</img>",
                                          "context_image_token": "<IMG_CONTEXT>"}
    (out / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    # Sizes and normalisation as Qwen2.5-VL publishes them.
    processor = {
        "image_processor_type": "Qwen2VLImageProcessor", "processor_class": "Qwen2_5_VLProcessor",
        "min_pixels": 3136, "max_pixels": 12845056, "patch_size": 14, "temporal_patch_size": 2, "merge_size": 2,
        "image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711],
    }
    if not internvl:
        (out / "preprocessor_config.json").write_text(json.dumps(processor, indent=2) + "\n", encoding="utf-8")
    part.rename(out / "tokenizer.json")
    print(f"{out}/tokenizer.json: {len(ranks)} ranks, {len(merges)} merges, {len(names)} added tokens")


if __name__ == "__main__":
    main()
