"""The peer: one training step of the transformers class, driven as peer.py says.

    peer_transformers.py CASE_DIR --dtype fp32|bf16 --threads N [--attention sdpa]
"""
from peer import begin, resident_bytes, serve

arguments = begin(__doc__, attention="sdpa")

import torch  # noqa: E402  (the number of threads comes first)
import transformers  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

base_bytes = resident_bytes()
model = transformers.AutoModelForImageTextToText.from_pretrained(
    arguments.case, dtype=torch.bfloat16 if arguments.dtype == "bf16" else torch.float32,
    attn_implementation=arguments.attention)
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1, betas=(0.9, 0.95), fused=True)
inputs = load_file(arguments.case / "batch/inputs.safetensors")
for ours in ("mm_token_type_ids", "tiles_per_sample"):
    inputs.pop(ours, None)
if "pixel_values" in inputs:
    inputs["pixel_values"] = inputs["pixel_values"].to(model.dtype)


def step():
    optimizer.zero_grad(set_to_none=True)
    loss = model(**inputs, use_cache=False).loss
    loss.backward()
    optimizer.step()
    return loss.item()


serve(step, base_bytes)
