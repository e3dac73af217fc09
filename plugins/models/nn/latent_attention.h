// Multi-head latent attention (arXiv:2405.04434, section 2.1): keys and values of all heads come from one narrow row,
// the latent, and one rotated key part that the heads share.
//
//   k[h] = [U_k[h] c; r],  v[h] = U_v[h] c     with c the latent [N, L], r the shared rotated key [N, R]
//
// Letters beside README's: L latent, R rotated, P not rotated, W value size. A query head is [P, R] wide, rotated part
// last.
#pragma once

#include "nn/attention.h"

namespace lf::nn {

struct LatentShape {
  int64_t heads = 1, plain = 0, rotated = 0, value = 0, latent = 0;
  double scale = 0;  // of the scores

  int64_t head_size() const { return plain + rotated; }
  AttentionShape attention() const {
    return {.heads = heads,
            .kv_heads = heads,
            .head_size = head_size(),
            .causal = true,
            .value_size = value,
            .scale = scale};
  }
};

// Causal attention to every earlier row of the segment: query [N, H (P + R)], rotated; expanded [N, H (P + W)], the
// latents times kv_b; shared_key [N, R], rotated -> [N, H W]. Keys are put together for the call and again in
// backward; kept are the inputs, the result and its log-sums.
at::Tensor latent_attention(const at::Tensor& query, const at::Tensor& expanded, const at::Tensor& shared_key,
                            const LatentShape& shape, const Segments& segments);

}  // namespace lf::nn
