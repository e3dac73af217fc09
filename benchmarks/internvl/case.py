"""Make one benchmark case: an InternVL3-shaped model with random weights and one batch, in the layout of a parity case.

    case.py OUT_DIR --batch short|ragged [--seed N]

OUT_DIR gets config.json, model.safetensors and batch/inputs.safetensors, which both sides read. `short` needs no padding:
four rows of 256 tokens, each with one tile. `ragged` is what dynamic tiling makes of real data: lognormal lengths, pictures
of 1 to 6 tiles with a thumbnail where there are several, some rows without.
"""
import argparse
import pathlib

import torch
from safetensors.torch import save_file

CONTEXT, BEGIN, END = 8185, 8186, 8187
SIDE, PATCH = 224, 14
TOKENS = (SIDE // PATCH // 2) ** 2  # of a tile


def configuration():
    import transformers
    return transformers.InternVLConfig(
        text_config=dict(model_type="qwen2", vocab_size=32000, hidden_size=512, intermediate_size=1408, num_hidden_layers=8,
                         num_attention_heads=8, num_key_value_heads=2, max_position_embeddings=8192, rms_norm_eps=1e-6,
                         rope_parameters=dict(rope_type="default", rope_theta=1e6), tie_word_embeddings=False,
                         bos_token_id=1, eos_token_id=2, pad_token_id=0),
        vision_config=dict(hidden_size=320, intermediate_size=1280, num_hidden_layers=8, num_attention_heads=5,
                           image_size=[SIDE, SIDE], patch_size=[PATCH, PATCH], attention_bias=True),
        image_token_id=CONTEXT, image_seq_length=TOKENS, downsample_ratio=0.5, tie_word_embeddings=False)


def rows(batch, generator):
    """(tokens of text, [tiles of each picture]) per row."""
    if batch == "short":
        return [(256 - 2 - TOKENS, [1])] * 4
    lengths = torch.exp(torch.randn(12, generator=generator) * 0.9 + 4.9).clamp(24, 900).long().tolist()
    tiles = [1, 3, 5, 1, 7, 2 + 1]  # two and more have a thumbnail beside them
    return [(n, [] if i % 3 == 2 else [tiles[(i * 5 + k) % len(tiles)] for k in range(1 + i % 2)])
            for i, n in enumerate(lengths)]


def make_batch(batch, generator):
    sequences, counts = [], []
    for text, pictures in rows(batch, generator):
        ids = []
        for tiles in pictures:
            ids += [BEGIN] + [CONTEXT] * (TOKENS * tiles) + [END]
        prompt = len(ids) + text // 4
        ids += torch.randint(3, 8000, (text,), generator=generator).tolist()
        sequences.append((ids, [-100] * prompt + ids[prompt:]))
        counts.append(sum(pictures))
    longest = max(len(ids) for ids, _ in sequences)
    pad = lambda values, filler: values + [filler] * (longest - len(values))
    return {
        "input_ids": torch.tensor([pad(ids, 0) for ids, _ in sequences]),
        "labels": torch.tensor([pad(labels, -100) for _, labels in sequences]),
        "attention_mask": torch.tensor([pad([1] * len(ids), 0) for ids, _ in sequences]),
        "tiles_per_sample": torch.tensor(counts),
        "pixel_values": torch.randn(sum(counts), 3, SIDE, SIDE, generator=generator),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--batch", choices=["short", "ragged"], required=True)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    import transformers
    torch.manual_seed(arguments.seed)
    model = transformers.InternVLForConditionalGeneration(configuration()).float()
    model.save_pretrained(arguments.out)
    inputs = make_batch(arguments.batch, torch.Generator().manual_seed(arguments.seed))
    (arguments.out / "batch").mkdir(exist_ok=True)
    save_file(inputs, arguments.out / "batch/inputs.safetensors")
    mask = inputs["attention_mask"]
    print(f"{arguments.batch}: {sum(p.numel() for p in model.parameters()) / 1e6:.1f}M parameters, "
          f"{mask.shape[0]} rows padded to {mask.shape[1]}, {int(mask.sum())} tokens of {mask.numel()}, "
          f"{int((inputs['labels'] != -100).sum())} supervised, {inputs['pixel_values'].shape[0]} tiles")


if __name__ == "__main__":
    main()
