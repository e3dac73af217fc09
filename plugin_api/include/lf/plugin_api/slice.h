/* What a rank holds of a sliced parameter: the one rule that host and plugins share, so that both know local shapes.
 *
 * A part of u = ceil(shape[axis] / piece) pieces is cut over n ranks: rank r holds pieces [floor(r*u/n),
 * floor((r+1)*u/n)). The last piece may be short; with n > u some ranks hold nothing, or, with LF_PART_COPY, rank r
 * holds piece floor(r*u/n), which neighbours then hold too. Nothing is ever padded. */
#ifndef LF_PLUGIN_API_SLICE_H
#define LF_PLUGIN_API_SLICE_H

#include "lf/plugin_api/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lf_range {
  int64_t begin, end; /* elements along an axis; empty: begin == end */
} lf_range;

/* A place in the groups that parts are cut along; {0, 1, 0, 1} is a run without parallelism. */
typedef struct lf_place {
  int64_t tp_rank, tp_size, ep_rank, ep_size;
} lf_place;

static inline int64_t lf_slice_count(const lf_part *part) { /* u */
  return part->piece > 1 ? (part->shape[part->axis] + part->piece - 1) / part->piece : part->shape[part->axis];
}

/* floor(r*u/n) without the product that could overflow. */
static inline int64_t lf_slice_floor(int64_t r, int64_t u, int64_t n) { return r * (u / n) + r * (u % n) / n; }

/* The elements of `part` along part->axis that rank `rank` of `size` holds; all of them where the part is not cut. */
static inline lf_range lf_slice_of(const lf_part *part, int64_t rank, int64_t size) {
  const int64_t length = part->shape[part->axis], piece = part->piece > 1 ? part->piece : 1;
  const int64_t count = lf_slice_count(part);
  lf_range range = {0, length};
  if (size <= 1 || part->along == LF_ALONG_NONE) return range;
  range.begin = lf_slice_floor(rank, count, size);
  range.end = lf_slice_floor(rank + 1, count, size);
  if ((part->flags & LF_PART_COPY) != 0 && size > count && count > 0) range.end = range.begin + 1;
  range.begin *= piece;
  range.end *= piece;
  if (range.end > length) range.end = length;
  if (range.begin > range.end) range.begin = range.end;
  return range;
}

static inline lf_range lf_slice(const lf_part *part, lf_place place) {
  return part->along == LF_ALONG_EP ? lf_slice_of(part, place.ep_rank, place.ep_size)
                                    : lf_slice_of(part, place.tp_rank, place.tp_size);
}

/* The local shape of a parameter of `n` parts: they are joined along `join_axis` after the cut. */
static inline void lf_local_shape(const lf_param *param, const lf_part *parts, uint32_t n, lf_place place,
                                  int64_t shape[LF_MAX_DIMS]) {
  uint32_t k;
  int32_t axis;
  for (axis = 0; axis < LF_MAX_DIMS; ++axis) shape[axis] = axis < param->ndim ? param->shape[axis] : 0;
  for (k = 0; k < n; ++k) {
    for (axis = 0; axis < param->ndim; ++axis) {
      const lf_range range = lf_slice(&parts[k], place);
      const int64_t length = axis == parts[k].axis ? range.end - range.begin : parts[k].shape[axis];
      shape[axis] = k > 0 && axis == param->join_axis ? shape[axis] + length : length;
    }
  }
}

#ifdef __cplusplus
}
#endif
#endif
