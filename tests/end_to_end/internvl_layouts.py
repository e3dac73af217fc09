"""transformers' names of an InternVL checkpoint to OpenGVLab's: for weights, and for the gradients of a recorded case.

Written apart from the plugin, from the two published files' names; the weights that come out are compared with recorded ones.
Standard library only: tensors are (dtype, shape, bytes), and rows are joined as bytes.
"""
import json
import pathlib
import re
import shutil
import struct


def read(path):
    data = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: (entry["dtype"], entry["shape"], data[8 + size + entry["data_offsets"][0]:8 + size + entry["data_offsets"][1]])
            for name, entry in header.items()}


def write(tensors, path):
    header, at = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values()))


PROJECTOR = {"layer_norm": "0", "linear_1": "1", "linear_2": "3"}
VISION = [("embeddings.cls_token", "embeddings.class_embedding"), ("position_embeddings", "position_embedding"),
          ("patch_embeddings.projection", "patch_embedding"), ("encoder.layer.", "encoder.layers."), ("layernorm_before", "norm1"),
          ("layernorm_after", "norm2"), ("attention.projection_layer", "attn.proj"), ("attention.", "attn."), ("lambda_1", "ls1"),
          ("lambda_2", "ls2")]
INTERNLM2 = [("model.embed_tokens", "model.tok_embeddings"), ("self_attn.o_proj", "attention.wo"), ("mlp.gate_proj", "feed_forward.w1"),
             ("mlp.up_proj", "feed_forward.w3"), ("mlp.down_proj", "feed_forward.w2"), ("input_layernorm", "attention_norm"),
             ("post_attention_layernorm", "ffn_norm"), ("lm_head", "output")]


def rename(name, internlm2):
    if name.startswith("multi_modal_projector."):
        part, kind = name.split(".")[1:]
        return f"mlp1.{PROJECTOR[part]}.{kind}"
    if name.startswith("vision_tower."):
        name = name.replace("vision_tower.", "vision_model.")
        for a, b in VISION:
            name = name.replace(a, b)
        return name
    if internlm2:
        for a, b in INTERNLM2:
            name = name.replace(a, b)
    return name


def rows(tensor, begin, end):
    dtype, shape, data = tensor
    each = len(data) // shape[0]
    return data[begin * each:end * each]


def joined(parts, order):
    """Rows (part, begin, end) in that order."""
    dtype, shape, _ = parts[0]
    count = sum(part[1][0] for part in parts)
    return dtype, [count, *shape[1:]], b"".join(rows(parts[i], begin, end) for i, begin, end in order)


def to_original(tensors, text_config):
    """`tensors` by transformers' names without a prefix; text_config of config.json."""
    internlm2 = text_config["model_type"] == "llama"
    heads, groups = text_config["num_attention_heads"], text_config["num_key_value_heads"]
    out, qkv = {}, {}
    for name, tensor in tensors.items():
        match = re.fullmatch(r"(.*\.(?:attention|self_attn)\.)([qkv])_proj\.(weight|bias)", name)
        if match and (internlm2 or name.startswith("vision_tower.")):
            qkv.setdefault((match[1], match[3]), {})[match[2]] = tensor
        else:
            out[rename(name, internlm2)] = tensor
    for (stem, kind), parts in qkv.items():
        q, k, v = (parts[x] for x in "qkv")
        if stem.startswith("vision_tower."):
            order = [(i, 0, part[1][0]) for i, part in enumerate((q, k, v))]
            out[rename(stem + "qkv." + kind, internlm2)] = joined((q, k, v), order)
        else:
            head, share = k[1][0] // groups, heads // groups
            order = []
            for g in range(groups):
                order += [(0, g * share * head, (g + 1) * share * head), (1, g * head, (g + 1) * head), (2, g * head, (g + 1) * head)]
            out[stem.replace("self_attn.", "attention.wqkv.") + kind] = joined((q, k, v), order)
    return out


def text_directory(reference, folder):
    """The language model of a fixture by itself, with the case that has no pictures, as its text class would be saved."""
    def own(tensors, prefix=""):
        start = prefix + "language_model."
        return {prefix + name[len(start):]: tensor for name, tensor in tensors.items() if name.startswith(start)}

    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(json.loads((reference / "config.json").read_text())["text_config"]))
    write(own(read(reference / "model.safetensors")), folder / "model.safetensors")
    case = folder / "text"
    case.mkdir()
    inputs = read(reference / "text/inputs.safetensors")
    write({name: tensor for name, tensor in inputs.items() if name != "tiles_per_sample"}, case / "inputs.safetensors")
    expected = read(reference / "text/expected.safetensors")
    kept = {name: tensor for name, tensor in expected.items() if not name.startswith("grad.")}
    write({**kept, **own(expected, "grad.")}, case / "expected.safetensors")
    return folder


def original_directory(reference, folder):
    """A parity directory in the authors' layout: their config, weights as recorded, gradients under their names."""
    text = json.loads((reference / "config.json").read_text())["text_config"]
    folder.mkdir()
    shutil.copy(reference / "config_hub.json", folder / "config.json")
    shutil.copy(reference / "model_orig.safetensors", folder / "model.safetensors")
    shutil.copy(reference / "meta.json", folder)
    for case in (p for p in reference.iterdir() if (p / "inputs.safetensors").exists()):
        (folder / case.name).mkdir()
        shutil.copy(case / "inputs.safetensors", folder / case.name)
        expected = read(case / "expected.safetensors")
        gradients = {name[5:]: tensor for name, tensor in expected.items() if name.startswith("grad.")}
        kept = {name: tensor for name, tensor in expected.items() if not name.startswith("grad.")}
        kept.update({"grad." + name: tensor for name, tensor in to_original(gradients, text).items()})
        write(kept, folder / case.name / "expected.safetensors")
    return folder
