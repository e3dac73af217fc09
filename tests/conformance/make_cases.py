"""Cases for the conformance kit on every model family of ours: make_cases.py FOLDER. The tiny models and the tokenizer
of the end-to-end tests, with one change: all experts, and all rows of an indexer, are always taken, since a choice makes
the loss jump, and the kit measures its slope."""
import json
import pathlib
import random
import shutil
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "end_to_end"))
from tiny_job import INTERNVL, MODEL, deepseek_tokenizer, write_tokenizer  # noqa: E402

root = pathlib.Path(sys.argv[1])
ROBOT = pathlib.Path(__file__).resolve().parent.parent / "fixtures/robot/pusht"


def sample(name, question, answer):
    return {"id": name, "messages": [{"role": "user", "content": question},
                                     {"role": "assistant", "train": True, "content": [{"type": "text", "text": answer}]}]}


def text(words):
    return {"type": "text", "text": words}


def picture(size):
    return {"type": "image", "path": f"/painted/by_the_kit_{size}.png"}


# Pictures of several sizes, one sample with two, one without: every component sees atoms of several lengths.
PICTURES = [sample("1", [picture("56x84"), text("What is it?")], "A red layer."),
            sample("2", [text("Say a word")], "watercolour and some more of it"),
            sample("3", [picture("112x56"), picture("56x56"), text("Both?")], "Yes.")]
TEXTS = [sample(str(i), [text(question)], answer) for i, (question, answer) in enumerate(
    [("What is it?", "A red layer."), ("Say a word", "watercolour and some more of it"), ("?", "Yes.")])]


def write(name, config, samples, tokenizer=True, options=None):
    folder = root / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if tokenizer is True:
        write_tokenizer(folder / "tokenizer")
    elif tokenizer:
        (folder / "tokenizer").mkdir()
        (folder / "tokenizer/tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "config.json").write_text(json.dumps(config))
    if options:
        (folder / "options.json").write_text(json.dumps(options))
    if callable(samples):
        samples = samples(folder)
    (folder / "samples.jsonl").write_text("".join(json.dumps(s) + "\n" for s in samples))


DECODER = {"vocab_size": 272, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
           "num_key_value_heads": 2, "head_dim": 8, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": False}
TOWER = {"hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 28,
         "patch_size": 7, "attention_bias": True}
LATENT = {"vocab_size": 272, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2,
          "q_lora_rank": 16, "kv_lora_rank": 12, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8,
          "n_routed_experts": 4, "num_experts_per_tok": 4, "n_group": 2, "topk_group": 2, "n_shared_experts": 1,
          "moe_intermediate_size": 16, "first_k_dense_replace": 1, "max_position_embeddings": 4096,
          "rope_theta": 10000.0, "bos_token_id": 0, "eos_token_id": 1}

write("qwen_vl", MODEL, PICTURES)
internvl = json.loads(json.dumps(INTERNVL))
internvl["text_config"]["num_experts_per_tok"] = internvl["text_config"]["num_experts"]
write("internvl", internvl, PICTURES)
write("compose", {"model_type": "compose", "vision": {"type": "intern_vit", **TOWER}, "projector": {"merge": 2},
                  "decoder": {"type": "qwen3", **DECODER}}, PICTURES)
write("causal_lm", {"model_type": "qwen3", **DECODER}, TEXTS)
write("deepseek", {"model_type": "deepseek_v3", "num_nextn_predict_layers": 1, **LATENT}, TEXTS,
      deepseek_tokenizer(), {"bias_update_rate": 0.001})
# The indexer alone learns from a divergence whose other side is held still: no loss has its gradients as its slope.
write("deepseek_v32", {"model_type": "deepseek_v32", "index_n_heads": 2, "index_head_dim": 8, "index_topk": 4096, **LATENT},
      TEXTS, deepseek_tokenizer(), {"indexer": "frozen"})


def write_tensors(path, shapes, seed):
    """safetensors of normal f32 values."""
    draw, header, body = random.Random(seed), {}, b""
    for name, shape in shapes.items():
        count = 1
        for side in shape:
            count *= side
        values = struct.pack(f"<{count}f", *(draw.gauss(0, 1) for _ in range(count)))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(body), len(body) + len(values)]}
        body += values
    table = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(table)) + table + body)


def latents(shapes):
    """Samples whose answers are files of latents; `shapes`: their tensors."""
    def write_files(folder):
        samples = []
        for i, tensors in enumerate(shapes):
            file = folder / f"{i}.safetensors"
            write_tensors(file, tensors, i)
            samples.append({"id": str(i), "messages": [
                {"role": "user", "content": [text("A lamp.")]},
                {"role": "assistant", "train": True, "content": [{"type": "image", "path": str(file)}]}]})
        return samples
    return write_files


def recorded(frames):
    """Samples of a robot's first episode, in a folder whose name gives the kit a size."""
    def copy(folder):
        directory = folder / "pusht_96x96"
        shutil.copytree(ROBOT, directory)
        return [{"robot": {"directory": str(directory), "frame": frame}} for frame in frames]
    return copy


# Sizes differ, so that packing shows.
write("diffusion_flux", {"_class_name": "FluxTransformer2DModel", "patch_size": 1, "in_channels": 16, "num_layers": 1,
                         "num_single_layers": 1, "attention_head_dim": 16, "num_attention_heads": 2,
                         "joint_attention_dim": 12, "pooled_projection_dim": 10, "guidance_embeds": True,
                         "axes_dims_rope": [4, 6, 6]},
      latents([{"latents": [4, 4, 6], "context": [3, 12], "pooled": [10]},
               {"latents": [4, 8, 4], "context": [5, 12], "pooled": [10]}]), tokenizer=False)
write("diffusion_wan", {"_class_name": "WanTransformer3DModel", "patch_size": [1, 2, 2], "num_attention_heads": 2,
                        "attention_head_dim": 12, "in_channels": 4, "out_channels": 4, "text_dim": 10, "freq_dim": 16,
                        "ffn_dim": 32, "num_layers": 2},
      latents([{"latents": [4, 2, 4, 6], "context": [3, 10]}, {"latents": [4, 1, 8, 4], "context": [5, 10]}]),
      tokenizer=False)

# Of ten frames a second those that the kit, whose videos have two, has too.
write("pi05", {"type": "pi05", "vlm": {"width": 16, "mlp_dim": 24}, "action_expert": {"width": 12, "mlp_dim": 20},
               "depth": 2, "num_heads": 2, "num_kv_heads": 1, "head_dim": 8, "vocab_size": 272,
               "vision": {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2,
                          "patch_size": 14},
               "image_resolution": [28, 28], "chunk_size": 3, "max_action_dim": 4,
               "input_features": {"observation.images.top": {"type": "VISUAL", "shape": [3, 96, 96]},
                                  "observation.state": {"type": "STATE", "shape": [2]}},
               "output_features": {"action": {"type": "ACTION", "shape": [2]}}},
      recorded([0, 5, 20]), options={"cameras": ["observation.images.top"]})
