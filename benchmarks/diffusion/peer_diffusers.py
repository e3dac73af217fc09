"""The peer: one training step of the diffusers class, driven as benchmarks/training_step/peer.py says.

    peer_diffusers.py CASE_DIR --dtype fp32|bf16 --threads N

Flux of diffusers rounds times and guidance to bf16 before it embeds them, so that 731 is 732 and its embedding another one: the
losses would differ by 2%. Here they reach the embedding in f32, as they do in lfrun.

Samples of different sizes go through the model one by one, gradients accumulating: diffusers has no packing, pads nothing
within Flux, and uses the first picture's positions for a whole batch of Qwen-Image's.
"""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "training_step"))
from peer import begin, resident_bytes, serve  # noqa: E402

arguments = begin(__doc__)

import torch  # noqa: E402  (the number of threads comes first)
import diffusers  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

base_bytes = resident_bytes()
config = json.loads((arguments.case / "config.json").read_text())
dtype = torch.bfloat16 if arguments.dtype == "bf16" else torch.float32
model = getattr(diffusers, config["_class_name"]).from_config(config)
model.load_state_dict(load_file(arguments.case / "model.safetensors"))
model.to(dtype).train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1, betas=(0.9, 0.95), fused=True)
samples = {}
for name, tensor in load_file(arguments.case / "batch/inputs.safetensors").items():
    index, name = name.split(".", 1)
    samples.setdefault(int(index), {})[name] = tensor


def exact_times(module, arguments):
    """Before Flux's embedding: (time, guidance, pooled) of the sample that is being run, unrounded."""
    return (running["timestep"], running["guidance"] * 1000, arguments[2])


running = {}
if hasattr(model, "time_text_embed") and "pooled_projection_dim" in config:
    model.time_text_embed.register_forward_pre_hook(exact_times)


def predict(b):
    running.update(b)
    cast = lambda name: b[name].to(dtype)
    if "img_ids" in b:
        return model(hidden_states=cast("noisy_latents"), timestep=cast("timestep") / 1000, encoder_hidden_states=cast("context"),
                     pooled_projections=cast("pooled"), img_ids=b["img_ids"], txt_ids=b["txt_ids"], guidance=cast("guidance"),
                     return_dict=False)[0]
    if "img_shapes" in b:
        return model(hidden_states=cast("noisy_latents"), timestep=b["timestep"] / 1000, encoder_hidden_states=cast("context"),
                     img_shapes=[[tuple(r) for r in b["img_shapes"].tolist()]], return_dict=False)[0]
    return model(hidden_states=torch.cat([cast("noisy_latents"), cast("y")], 1), timestep=b["timestep"],
                 encoder_hidden_states=cast("context"), return_dict=False)[0]


def step():
    optimizer.zero_grad(set_to_none=True)
    total = 0.0
    for b in samples.values():
        loss = ((predict(b).float() - b["target"]) ** 2).mean() * b["weight"][0] / len(samples)
        loss.backward()
        total += loss.item()
    optimizer.step()
    return total


serve(step, base_bytes)
