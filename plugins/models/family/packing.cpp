#include "family/packing.h"

#include <utility>

namespace lf::family {

Packed pack(std::span<const Sequence> sequences) {
  Packed packed;
  packed.starts = {0};
  bool any_source = false;
  for (const Sequence& sequence : sequences) any_source = any_source || !sequence.source_rows.empty();
  for (const Sequence& sequence : sequences) {
    packed.ids.insert(packed.ids.end(), sequence.ids.begin(), sequence.ids.end());
    if (!sequence.labels.empty()) {
      packed.targets.insert(packed.targets.end(), sequence.labels.begin() + 1, sequence.labels.end());
      packed.targets.push_back(kUnsupervised);
    }
    if (any_source && sequence.source_rows.empty())
      packed.source_rows.resize(packed.source_rows.size() + sequence.ids.size(), -1);
    packed.source_rows.insert(packed.source_rows.end(), sequence.source_rows.begin(), sequence.source_rows.end());
    packed.starts.push_back(packed.starts.back() + sequence.rows());
  }
  return packed;
}

void Packed::add_to(Columns& out) {
  const int64_t n = rows(), n_starts = static_cast<int64_t>(starts.size());
  out.add("input_ids", integer_column(std::move(ids), {n}));
  out.add("targets", integer_column(std::move(targets), {n}));
  out.add("segment_starts", integer_column(std::move(starts), {n_starts}));
  if (!source_rows.empty()) out.add("source_row", integer_column(std::move(source_rows), {n}));
}

}  // namespace lf::family
