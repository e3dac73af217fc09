"""The same sizes in transformers: DeepSeek-V3.2's attention module, eager, and DeepSeek-V3's experts, one by one
(transformers' "eager") or by torch's grouped product (its default).

    peer_transformers.py attention|experts|experts_grouped LENGTH [REPEATS]

Prints the JSON line of blocks.cpp. The attention module includes its projections; its indexer selects under no_grad.
"""
import json
import statistics
import sys
import time

import torch


def peak_mb():
    for line in open("/proc/self/status"):
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024


def rss_mb():
    for line in open("/proc/self/status"):
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024


def attention(length):
    import transformers
    from transformers.models.deepseek_v32 import modeling_deepseek_v32 as m
    config = transformers.DeepseekV32Config(
        vocab_size=64, hidden_size=512, intermediate_size=64, moe_intermediate_size=16, num_hidden_layers=1,
        num_attention_heads=16, num_key_value_heads=16, n_routed_experts=4, num_experts_per_tok=2, n_group=1,
        topk_group=1, kv_lora_rank=128, q_lora_rank=192, qk_rope_head_dim=32, qk_nope_head_dim=64, v_head_dim=64,
        index_topk=512, index_head_dim=64, index_n_heads=8, max_position_embeddings=65536, first_k_dense_replace=1,
        rope_parameters=dict(rope_type="default", rope_theta=10000.0))
    config._attn_implementation = "eager"
    layer, rotary = m.DeepseekV32Attention(config, 0).float(), m.DeepseekV32RotaryEmbedding(config)
    x = torch.randn(1, length, 512, requires_grad=True)
    positions = rotary(x, torch.arange(length)[None])

    def run():
        mask = torch.full((length, length), float("-inf")).triu(1)[None, None]
        return layer(x, position_embeddings=positions, attention_mask=mask)[0]
    return run


def experts(length, implementation="eager"):
    import transformers
    from transformers.models.deepseek_v3 import modeling_deepseek_v3 as m
    config = transformers.DeepseekV3Config(
        hidden_size=512, moe_intermediate_size=128, n_routed_experts=64, num_experts_per_tok=6, n_group=1, topk_group=1,
        n_shared_experts=1)
    config._experts_implementation = implementation
    gate, layer = m.DeepseekV3TopkRouter(config).float(), m.DeepseekV3Experts(config).float()
    for p in [*gate.parameters(), *layer.parameters()]:
        torch.nn.init.normal_(p, std=0.05)
    x = torch.randn(length, 512, requires_grad=True)

    def run():
        _, weights, index = gate(x)
        return layer(x, index, weights) + x
    return run


def main():
    kind, length, repeats = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 3
    run = {"attention": attention, "experts": experts,
           "experts_grouped": lambda rows: experts(rows, "grouped_mm")}[kind](length)
    open("/proc/self/clear_refs", "w").write("5")
    before, forward, both = rss_mb(), [], []
    for _ in range(repeats):
        begun = time.process_time()
        y = run()
        forward.append(time.process_time() - begun)
        y.sum().backward()
        both.append(time.process_time() - begun)
        del y
    print(json.dumps({"kind": "transformers " + kind, "length": length, "threads": torch.get_num_threads(),
                      "forward": round(statistics.median(forward), 4), "both": round(statistics.median(both), 4),
                      "peak_mb": round(peak_mb() - before, 1)}))


if __name__ == "__main__":
    main()
