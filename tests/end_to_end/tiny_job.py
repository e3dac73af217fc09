"""A job small enough for a test: a Qwen-VL-shaped model of a few thousand parameters, a byte tokenizer, drawn pictures.

Everything is made here from the standard library alone, the same bytes every time.
"""
import json
import pathlib
import random
import struct
import subprocess
import zlib

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>",
           "<|image_pad|>", "<|video_pad|>"]


def byte_letters():
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {byte: chr(byte) for byte in printable}
    for byte in range(256):
        letters.setdefault(byte, None)
    spare = 256
    for byte in range(256):
        if letters[byte] is None:
            letters[byte] = chr(spare)
            spare += 1
    return [letters[byte] for byte in range(256)]


INTERNVL_MARKS = ["<img>", "</img>", "<IMG_CONTEXT>"]  # 264 to 266


def write_tokenizer(folder):
    folder.mkdir(parents=True)
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": 256 + i, "content": text, "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False, "special": True} for i, text in enumerate(SPECIAL + INTERNVL_MARKS)],
        "normalizer": None, "pre_tokenizer": byte_level, "post_processor": byte_level, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
                  "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {letter: byte for byte, letter in enumerate(byte_letters())}, "merges": []}}))


def deepseek_tokenizer():
    """tokenizer.json of bytes and DeepSeek's own tokens: 262 ids."""
    letters = [b for b in range(33, 127)] + [b for b in range(161, 173)] + [b for b in range(174, 256)]
    table, extra = {b: chr(b) for b in letters}, 0
    for b in range(256):
        if b not in table:
            table[b] = chr(256 + extra)
            extra += 1
    vocab = {table[b]: b + 3 for b in range(256)}
    names = ["<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜▁pad▁｜>"]
    added = [(i, n) for i, n in enumerate(names)] + [(259, "<｜User｜>"), (260, "<｜Assistant｜>"), (261, "</think>")]
    return {"version": "1.0", "truncation": None, "padding": None, "normalizer": None,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
            "post_processor": None,
            "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
            "added_tokens": [{"id": i, "content": n, "single_word": False, "lstrip": False, "rstrip": False,
                              "normalized": False, "special": i < 3} for i, n in added],
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "vocab": vocab, "merges": []}}


def write_png(path, width, height, seed):
    draw = random.Random(seed)
    rows = b"".join(b"\0" + bytes(draw.randrange(256) for _ in range(3 * width)) for _ in range(height))
    chunk = lambda kind, body: struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
                     chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


MODEL = {
    "architectures": ["Qwen2_5_VLForConditionalGeneration"], "model_type": "qwen2_5_vl", "torch_dtype": "float32",
    "vocab_size": 272, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "hidden_act": "silu", "rms_norm_eps": 1e-6, "initializer_range": 0.02,
    "max_position_embeddings": 4096, "rope_theta": 10000.0,
    "rope_scaling": {"type": "mrope", "mrope_section": [1, 1, 2]}, "attention_dropout": 0.0,
    "tie_word_embeddings": True, "use_sliding_window": False, "bos_token_id": 256, "eos_token_id": 258,
    "vision_start_token_id": 259, "vision_end_token_id": 260, "image_token_id": 262, "video_token_id": 263,
    "vision_config": {"model_type": "qwen2_5_vl", "depth": 2, "hidden_size": 24, "intermediate_size": 40, "num_heads": 2,
                      "out_hidden_size": 32, "in_chans": 3, "patch_size": 14, "spatial_patch_size": 14,
                      "spatial_merge_size": 2, "temporal_patch_size": 2, "tokens_per_second": 2, "window_size": 112,
                      "fullatt_block_indexes": [1], "hidden_act": "silu"},
}

INTERNVL = {  # both towers' kinds of layers are in the fixtures; here 300M style with experts
    "architectures": ["InternVLForConditionalGeneration"], "model_type": "internvl", "torch_dtype": "float32",
    "image_token_id": 266, "image_seq_length": 4, "downsample_ratio": 0.5, "tie_word_embeddings": False,
    "text_config": {"model_type": "qwen3_moe", "vocab_size": 272, "hidden_size": 32, "intermediate_size": 48,
                    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
                    "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "max_position_embeddings": 4096, "num_experts": 4,
                    "num_experts_per_tok": 2, "moe_intermediate_size": 16, "norm_topk_prob": True,
                    "tie_word_embeddings": False},
    "vision_config": {"model_type": "internvl_vision", "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2,
                      "num_attention_heads": 2, "image_size": [28, 28], "patch_size": [7, 7], "attention_bias": True},
}
INTERNVL_ORIGINAL = {  # InternLM2 behind a 6B-style tower
    "architectures": ["InternVLChatModel"], "model_type": "internvl_chat", "torch_dtype": "float32", "downsample_ratio": 0.5,
    "ps_version": "v2", "select_layer": -1, "dynamic_image_size": True, "use_thumbnail": True, "min_dynamic_patch": 1,
    "max_dynamic_patch": 4, "force_image_size": 28,
    "llm_config": {"model_type": "internlm2", "vocab_size": 272, "hidden_size": 32, "intermediate_size": 48,
                   "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-5,
                   "rope_theta": 10000.0, "max_position_embeddings": 4096, "tie_word_embeddings": False, "bias": False},
    "vision_config": {"model_type": "intern_vit_6b", "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2,
                      "num_attention_heads": 2, "image_size": 28, "patch_size": 7, "qk_normalization": True,
                      "qkv_bias": False, "norm_type": "rms_norm", "layer_norm_eps": 1e-6, "initializer_factor": 0.1},
}


def write_data(folder, samples):
    """Two thirds with one or two pictures, the others text only; answers of very different lengths."""
    (folder / "images").mkdir(parents=True)
    draw = random.Random(7)
    with open(folder / "train.jsonl", "w", encoding="utf-8") as out:
        for i in range(samples):
            sample, pictures = {"id": str(i)}, []
            for k in range(0 if i % 3 == 0 else 1 + i % 2):
                name = f"images/{i}_{k}.png"
                write_png(folder / name, draw.choice([28, 56, 70, 90]), draw.choice([28, 56, 84]), 100 * i + k)
                pictures.append(name)
            if pictures:
                sample["image"] = pictures
            words = " ".join(draw.choice(["red", "green", "blue", "layer", "brush", "mask", "path"])
                             for _ in range(draw.choice([2, 5, 9, 20])))
            sample["conversations"] = [{"from": "human", "value": "<image>\n" * len(pictures) + f"Say {i}"},
                                       {"from": "gpt", "value": words}]
            out.write(json.dumps(sample) + "\n")


def write_job(folder, samples=40, config=MODEL, **sections):
    """Makes folder/job.toml and all that it names. `sections`: tables of options over the defaults below."""
    folder = pathlib.Path(folder)
    write_tokenizer(folder / "tokenizer")
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    write_data(folder / "data", samples)
    tables = {
        "job": {"name": "tiny", "output": str(folder / "run"), "seed": 3, "steps": 6},
        "launch": {"processes": 1, "threads": 1},
        "model": {"family": "qwen_vl", "config": "config.json", "tokenizer": "tokenizer"},
        "data": {"path": "data/train.jsonl", "max_tokens": 256, "micro_batches": 4},
        "optimizer": {"learning_rate": 3e-3}, "schedule": {"name": "constant"}, "precision": {"compute": "fp32"},
        "metrics": {"seconds": 0.01},
    }
    for name, options in sections.items():
        tables.setdefault(name, {}).update(options)
    text = ""
    for name, options in tables.items():
        text += f"[{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in options.items())
    (folder / "job.toml").write_text(text)
    return folder / "job.toml"


class Lfrun:
    """The built launcher. Runs end within a minute or count as hung."""

    def __init__(self, build):
        self.program = pathlib.Path(build) / "bin/lfrun"
        self.plugins = pathlib.Path(build) / "plugins"

    def command(self, *arguments):
        return [str(self.program), "--plugin-dir", str(self.plugins), *map(str, arguments)]

    def __call__(self, *arguments, **options):
        return subprocess.run(self.command(*arguments), capture_output=True, text=True, timeout=60, **options)


def metrics(run):
    return [json.loads(line) for line in (pathlib.Path(run) / "metrics.jsonl").read_text().splitlines()]


def floats(tensor):
    """The values of (dtype, shape, bytes)."""
    dtype, _, data = tensor
    assert dtype == "F32", dtype
    return struct.unpack(f"<{len(data) // 4}f", data)
