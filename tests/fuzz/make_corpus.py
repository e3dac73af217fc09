#!/usr/bin/env python3
"""Writes the seeds of tests/fuzz/corpus: small inputs that reach far into each reader. Finds are added beside them by
hand, as find_*; this script leaves those alone. Standard library only.

    ./make_corpus.py [PLUGIN.lfplugin.so]    a small plugin; its headers and note are cut out as the seed of plugin_file
"""
import json
import pathlib
import struct
import sys

CORPUS = pathlib.Path(__file__).parent / "corpus"


def write(name, data):
    path = CORPUS / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())


def safetensors():
    def file(header, data, pad=0):
        text = json.dumps(header).encode() + b" " * pad
        return struct.pack("<Q", len(text)) + text + data
    write("safetensors/two", file({"__metadata__": {"format": "pt"},
                                   "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
                                   "b": {"dtype": "BF16", "shape": [4], "data_offsets": [24, 32]}}, bytes(32), 3))
    write("safetensors/empty", file({}, b""))
    write("safetensors/scalar", file({"s": {"dtype": "I64", "shape": [], "data_offsets": [0, 8]},
                                      "z": {"dtype": "U8", "shape": [0, 5], "data_offsets": [8, 8]}}, bytes(8)))


def sample_line():
    lines = [
        {"id": "a1", "image": ["x.png", "y.png"], "system": "Be brief.",
         "conversations": [{"from": "human", "value": "<image> or <image>?"}, {"from": "gpt", "value": "The second."}]},
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "file:///nowhere/media/x%20y.png"}},
                                                   {"type": "text", "text": "What is \U0001f600?"}]},
                      {"role": "assistant", "content": "A lamp.", "weight": 1}]},
        {"id": 7, "videos": [["f0.png", "f1.png"], {"path": "v.mp4", "fps": 2.5}, {"frames": ["g.png"], "fps": 1}],
         "messages": [{"role": "user", "content": "<video>\n<video><video>", "train": True}]},
        {"messages": [{"role": "tool", "content": [{"type": "video", "video": ["a.png"], "fps": 3}]},
                      {"role": "assistant", "content": "x"}]},
    ]
    for number, line in enumerate(lines):
        write(f"sample_line/{number}", json.dumps(line, ensure_ascii=number % 2 == 0))


def store():
    text = lambda value: struct.pack("<I", len(value)) + value
    number = lambda value: struct.pack("<q", value)
    frame = lambda op, *fields: struct.pack("<IB", 1 + sum(map(len, fields)), op) + b"".join(fields)
    write("store/set_get_erase", frame(1, text(b"k"), text(b"v" * 40)) + frame(2, text(b"k")) + frame(6, text(b"k")) + frame(7))
    write("store/add_compare", frame(3, text(b"n"), number(5)) + frame(3, text(b"n"), number(-(1 << 63))) +
          frame(8, text(b"n"), text(b"5"), text(b"6")) + frame(1, text(b"n"), text(b"x")) + frame(3, text(b"n"), number(1)))
    write("store/wait_check", frame(5, text(b"a"), text(b"b")) + frame(4, number(1 << 62), text(b"a")) + frame(2, text(b"a")))
    write("store/cut", frame(1, text(b"key"), text(b"value"))[:-2])


def tokenizer():
    letters = "".join(chr(c) for c in range(33, 127))
    vocab = {letter: i for i, letter in enumerate(letters)}
    for word in ("\u0120", "ab", "abc", "\u0120a"):
        vocab[word] = len(vocab)
    end = len(vocab)
    split = {"type": "Split", "pattern": {"Regex": r"(?i:'s|'t)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+(?!\S)|\s+"},
             "behavior": "Isolated", "invert": False}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    base = {"version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [{"id": end, "content": "<|im_end|>", "single_word": False, "lstrip": False, "rstrip": False,
                              "normalized": False, "special": True},
                             {"id": end + 1, "content": "word", "single_word": True, "lstrip": True, "rstrip": True,
                              "normalized": True, "special": False}],
            "normalizer": {"type": "NFC"}, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, level]},
            "post_processor": level, "decoder": level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
                      "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                      "vocab": vocab, "merges": ["a b", "ab c", "\u0120 a"]}}
    write("tokenizer/strings", json.dumps(base, ensure_ascii=False))
    base["model"]["merges"] = [["a", "b"], ["ab", "c"]]
    base["model"]["ignore_merges"] = True
    base["pre_tokenizer"] = level | {"use_regex": True}
    base["normalizer"] = None
    write("tokenizer/pairs", json.dumps(base))


def job_toml():
    write("job_toml/small", """[job]
name = "x"
output = "runs/x"
steps = 10
[launch]
processes = 2
[model]
family = "qwen_vl"
config = 'config.json'
freeze = ["vision.*", '''a''']
options.window = {a = 1, b = [1.5, 2e3, inf]}
[data]
path = ["a.jsonl", "b"]
max_tokens = 0x400
max_bad = 0.5
video_fps = nan
[balance]
policy = "minimax"
""")


def checkpoint():
    write("checkpoint/manifest", """{
 "files": {
  "optimizer-0.safetensors": {
   "bytes": 123,
   "tensors": {"a.m": "00112233445566778899aabbccddeeff"},
   "xxh3_128": "00112233445566778899aabbccddeeff"
  }
 },
 "format": 1,
 "step": 7""")
    write("checkpoint/escape", """{
 "files": {"../../etc/passwd": {"bytes": 1, "xxh3_128": "00112233445566778899aabbccddeeff"}},
 "format": 1,
 "step": 7""")


def tar():
    def header(name, size, kind=b"0"):
        block = bytearray(512)
        block[:len(name)] = name
        block[124:136] = b"%011o\0" % size
        block[156:157] = kind
        block[257:265] = b"ustar\00000"
        block[148:156] = b" " * 8
        block[148:156] = b"%06o\0 " % sum(block)
        return bytes(block)
    line = b'{"images":["1.png"],"messages":[{"role":"user","content":"<image>"},{"role":"assistant","content":"a"}]}'
    def member(name, data, kind=b"0"):
        return header(name, len(data), kind) + data + bytes(-len(data) % 512)
    write("tar/two", member(b"1.json", line) + member(b"1.png", b"pixels") + member(b"d/2.json", line) + bytes(1024))
    record = b"path=d/3.json\n"
    write("tar/pax", member(b"x", b"%d %b" % (len(record) + 3, record), b"x") + member(b"short", line) +
          member(b"L", b"long/1.json\0", b"L") + member(b"short", line))


def plugin_file(path):
    """The file's headers and its note, with the pages between cut short: what the walk looks at."""
    data = path.read_bytes()
    if len(data) > 200_000:
        raise SystemExit(f"{path}: expected a small plugin, got {len(data)} bytes")
    write("plugin_file/plugin", data)
    start = data.index(b'{"')
    write("plugin_file/manifest", data[start:data.index(b"\0", start)])


if __name__ == "__main__":
    for seeds in (safetensors, sample_line, store, tokenizer, job_toml, checkpoint, tar):
        seeds()
    write("image/none", b"\xff\xd8\xff\xe0")
    if len(sys.argv) > 1:
        plugin_file(pathlib.Path(sys.argv[1]))
