"""Make one benchmark case: a diffusion transformer with random weights and samples of different sizes.

    case.py OUT_DIR --family flux|qwen_image|wan [--seed N]

OUT_DIR gets config.json, model.safetensors and batch/inputs.safetensors, in the layout of a parity case, which both sides
read: eight samples, numbered, each with its own size, text length and noise level (as data sets that keep their pictures'
proportions have them).
"""
import argparse
import pathlib

import torch
from safetensors.torch import save_file

GRIDS = [(16, 16), (24, 12), (10, 20), (32, 16), (8, 8), (20, 28), (12, 12), (18, 30)]  # rows of patches
TEXTS = [40, 17, 96, 64, 128, 25, 77, 33]
LEVELS = [100, 731, 333, 20, 990, 500, 612, 250]
SIZES = dict(heads=6, head=64, text=512, axes=(16, 24, 24))


def make_model(family):
    import diffusers
    width = dict(num_attention_heads=SIZES["heads"], attention_head_dim=SIZES["head"])
    if family == "flux":
        return diffusers.FluxTransformer2DModel(patch_size=1, in_channels=64, num_layers=4, num_single_layers=8, joint_attention_dim=SIZES["text"],
                                                pooled_projection_dim=256, guidance_embeds=True, axes_dims_rope=SIZES["axes"], **width)
    if family == "qwen_image":
        return diffusers.QwenImageTransformer2DModel(patch_size=2, in_channels=64, out_channels=16, num_layers=8,
                                                     joint_attention_dim=SIZES["text"], axes_dims_rope=SIZES["axes"], **width)
    return diffusers.WanTransformer3DModel(patch_size=(1, 2, 2), in_channels=36, out_channels=16, text_dim=SIZES["text"], freq_dim=256,
                                           ffn_dim=1536, num_layers=10, cross_attn_norm=True, qk_norm="rms_norm_across_heads", **width)


def sample(family, index, generator):
    (h, w), length, level = GRIDS[index], TEXTS[index], LEVELS[index]
    randn = lambda *shape: torch.randn(*shape, generator=generator)
    shape = (1, h * w, 64) if family != "wan" else (1, 16, 2, h, w)  # two frames of half as many patches a side
    sigma = 1 - level / 1000
    latents, noise = randn(*shape), randn(*shape)
    out = {"noisy_latents": (1 - sigma) * latents + sigma * noise, "target": noise - latents, "context": randn(1, length, SIZES["text"]),
           "timestep": torch.tensor([1000.0 * sigma]), "weight": torch.tensor([1.0 + 0.1 * index])}
    if family == "flux":
        y, x = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        out |= {"pooled": randn(1, 256), "guidance": torch.tensor([3.5]), "txt_ids": torch.zeros(length, 3),
                "img_ids": torch.stack([torch.zeros(h * w, dtype=torch.long), y.reshape(-1), x.reshape(-1)], 1).float()}
    elif family == "qwen_image":
        out["img_shapes"] = torch.tensor([[1, h, w]])
    else:
        out["y"] = randn(1, 20, 2, h, w)
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--family", choices=["flux", "qwen_image", "wan"], required=True)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    generator = torch.Generator().manual_seed(arguments.seed)
    model = make_model(arguments.family).float()
    with torch.no_grad():  # modulation, gates and the last map would begin at zero or nearly so
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * (parameter[0].numel() ** -0.5 if parameter.ndim > 1 else 0.1))
        for name, parameter in model.named_parameters():
            if "norm" in name and name.endswith("weight") and parameter.ndim == 1:
                parameter.add_(1)
    (arguments.out / "batch").mkdir(parents=True)
    model.save_config(arguments.out)
    save_file({name: p.detach().contiguous() for name, p in model.named_parameters()}, arguments.out / "model.safetensors")
    inputs = {f"{i}.{name}": tensor.contiguous() for i in range(len(GRIDS)) for name, tensor in sample(arguments.family, i, generator).items()}
    save_file(inputs, arguments.out / "batch/inputs.safetensors")
    rows = [h * w // (2 if arguments.family == "wan" else 1) for h, w in GRIDS]
    print(f"{arguments.family}: {sum(p.numel() for p in model.parameters()) / 1e6:.1f}M parameters, {len(GRIDS)} samples of "
          f"{min(rows)} to {max(rows)} image rows, {sum(rows)} in all, and {sum(TEXTS)} text rows")


if __name__ == "__main__":
    main()
