"""Make one benchmark case: a Qwen2.5-VL-shaped model with random weights and one batch, in the layout of a parity case.

    case.py OUT_DIR --batch short|ragged [--seed N]

OUT_DIR gets config.json, model.safetensors and batch/inputs.safetensors (unshifted labels, padding on the right), which
both sides read. `short` needs no padding: four rows of 256 tokens, each with one picture. `ragged` is what real data
looks like: lognormal lengths, pictures of mixed sizes, some rows without.
"""
import argparse
import pathlib

import torch
from safetensors.torch import save_file

IMAGE, VISION_START, VISION_END = 8185, 8187, 8188
PATCH, MERGE = 14, 2


def configuration():
    import transformers
    return transformers.Qwen2_5_VLConfig(
        text_config=dict(vocab_size=32000, hidden_size=512, intermediate_size=1408, num_hidden_layers=8,
                         num_attention_heads=8, num_key_value_heads=2, max_position_embeddings=8192, rms_norm_eps=1e-6,
                         rope_parameters=dict(rope_type="default", rope_theta=1e6, mrope_section=[8, 12, 12]),
                         tie_word_embeddings=False, bos_token_id=1, eos_token_id=2, pad_token_id=0),
        vision_config=dict(depth=8, hidden_size=320, num_heads=5, intermediate_size=860, out_hidden_size=512,
                           patch_size=PATCH, spatial_merge_size=MERGE, temporal_patch_size=2, in_channels=3,
                           window_size=112, fullatt_block_indexes=[3, 7], tokens_per_second=2),
        image_token_id=IMAGE, video_token_id=IMAGE + 1, vision_start_token_id=VISION_START,
        vision_end_token_id=VISION_END, tie_word_embeddings=False)


def rows(batch, generator):
    """(tokens of text, [picture grids in patches]) per row."""
    if batch == "short":
        return [(190, [(16, 16)])] * 4  # 190 + 2 markers + 64 merged patches = 256 tokens
    pictures = [(8, 8), (16, 12), (24, 32), (30, 18), (12, 40), (46, 34)]
    lengths = torch.exp(torch.randn(12, generator=generator) * 0.9 + 4.9).clamp(24, 900).long().tolist()
    return [(n, [] if i % 3 == 2 else [pictures[(i * 5 + k) % len(pictures)] for k in range(1 + i % 2)])
            for i, n in enumerate(lengths)]


def make_batch(batch, generator):
    sequences, grids = [], []
    for text, pictures in rows(batch, generator):
        ids = []
        for height, width in pictures:
            ids += [VISION_START] + [IMAGE] * (height * width // MERGE**2) + [VISION_END]
            grids.append([1, height, width])
        prompt = len(ids) + text // 4
        ids += torch.randint(3, 8000, (text,), generator=generator).tolist()
        labels = [-100] * prompt + ids[prompt:]
        sequences.append((ids, labels))
    longest = max(len(ids) for ids, _ in sequences)
    pad = lambda values, filler: values + [filler] * (longest - len(values))
    inputs = {
        "input_ids": torch.tensor([pad(ids, 0) for ids, _ in sequences]),
        "labels": torch.tensor([pad(labels, -100) for _, labels in sequences]),
        "attention_mask": torch.tensor([pad([1] * len(ids), 0) for ids, _ in sequences]),
    }
    inputs["mm_token_type_ids"] = (inputs["input_ids"] == IMAGE).long()
    if grids:
        inputs["image_grid_thw"] = torch.tensor(grids)
        patches = sum(t * h * w for t, h, w in grids)
        inputs["pixel_values"] = torch.randn(patches, 3 * 2 * PATCH**2, generator=generator)
    return inputs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--batch", choices=["short", "ragged"], required=True)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    import transformers
    torch.manual_seed(arguments.seed)
    generator = torch.Generator().manual_seed(arguments.seed)
    model = transformers.Qwen2_5_VLForConditionalGeneration(configuration()).float()
    model.save_pretrained(arguments.out)
    inputs = make_batch(arguments.batch, generator)
    positions = model.model.get_rope_index(inputs["input_ids"], inputs["mm_token_type_ids"],
                                           image_grid_thw=inputs.get("image_grid_thw"),
                                           attention_mask=inputs["attention_mask"])[0]
    inputs["position_ids"] = positions
    (arguments.out / "batch").mkdir(exist_ok=True)
    save_file({name: tensor.contiguous() for name, tensor in inputs.items()}, arguments.out / "batch/inputs.safetensors")
    mask = inputs["attention_mask"]
    print(f"{arguments.batch}: {sum(p.numel() for p in model.parameters()) / 1e6:.1f}M parameters, "
          f"{mask.shape[0]} rows padded to {mask.shape[1]}, {int(mask.sum())} tokens of {mask.numel()}, "
          f"{int((inputs['labels'] != -100).sum())} supervised, "
          f"{inputs['pixel_values'].shape[0] if 'pixel_values' in inputs else 0} patches")


if __name__ == "__main__":
    main()
