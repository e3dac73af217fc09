#!/usr/bin/env python3
"""Writes fixtures/ with the reference libraries (torch 2.11, safetensors 0.8, huggingface_hub 2.4), so that our bytes and
values have something independent to be compared with. Run only to change them: python make_fixtures.py"""
import pathlib
import shutil

import torch
from huggingface_hub import save_torch_state_dict
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).resolve().parent / "fixtures"


def numbered(shape, dtype):
    n = 1
    for length in shape:
        n *= length
    return torch.arange(n, dtype=torch.float64).reshape(shape).to(dtype)


def mixed():
    """Every type that the writer knows, names that need escapes, empty and scalar tensors; values are 0, 1, 2 ..."""
    types = {"bool": torch.bool, "u8": torch.uint8, "i8": torch.int8, "i16": torch.int16, "u16": torch.uint16,
             "f16": torch.float16, "bf16": torch.bfloat16, "i32": torch.int32, "u32": torch.uint32, "f32": torch.float32,
             "f64": torch.float64, "i64": torch.int64, "u64": torch.uint64, "f8_e4m3": torch.float8_e4m3fn}
    tensors = {f"t.{name}": numbered((3,), dtype) for name, dtype in types.items()}
    tensors |= {"layers.10.w": numbered((2, 3), torch.float32), "layers.9.w": numbered((3, 2), torch.float32),
                "scalar": numbered((), torch.float32), "empty": numbered((0, 5), torch.float32),
                'quote" back\\ tab\t one\x01 del\x7f é 語': numbered((2,), torch.bfloat16)}
    save_file(tensors, HERE / "mixed.safetensors", metadata={"format": "pt", "a": "1", "z": "\n"})
    save_file({"w": numbered((2,), torch.float32)}, HERE / "plain.safetensors")


def sharded():
    state = {}
    for layer in range(3):
        for name, shape in [("attn.q.weight", (8, 6)), ("attn.k.weight", (4, 6)), ("mlp.weight", (16, 6))]:
            state[f"layers.{layer}.{name}"] = (numbered(shape, torch.float32) + 1000 * layer).to(torch.bfloat16)
    state["embed.weight"] = numbered((40, 6), torch.bfloat16)
    (HERE / "sharded").mkdir()
    save_torch_state_dict(state, HERE / "sharded", max_shard_size=700, safe_serialization=True)


def fp8():
    generator = torch.Generator().manual_seed(7)
    weight = (torch.randn(200, 300, generator=generator) * 3).to(torch.float8_e4m3fn)
    scale = torch.rand(2, 3, generator=generator) + 0.5
    full = scale.repeat_interleave(128, 0)[:200].repeat_interleave(128, 1)[:, :300]
    save_file({"w.weight": weight, "w.weight_scale_inv": scale}, HERE / "fp8.safetensors")
    values = weight.float() * full
    save_file({"sums_of_rows": values.double().sum(1), "sums_of_columns": values.double().sum(0),
               "corner": values[120:136, 120:136].contiguous()}, HERE / "fp8_expected.safetensors")


def main():
    shutil.rmtree(HERE, ignore_errors=True)
    HERE.mkdir()
    mixed()
    sharded()
    fp8()


if __name__ == "__main__":
    main()
