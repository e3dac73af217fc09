#include "family/fields.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "lf/plugin_sdk/tensor.hpp"

namespace lf::family {
namespace {

void check_contiguous(const lf_tensor& tensor, std::string_view field) {
  int64_t stride = 1;
  for (int32_t i = tensor.ndim; i-- > 0; stride *= tensor.shape[i])
    if (tensor.shape[i] < 0 || (tensor.shape[i] > 1 && tensor.strides[i] != stride))
      refuse_field(field, "a contiguous tensor");
  if (tensor.device_uid != 0) refuse_field(field, "a tensor in host memory");
}

}  // namespace

void refuse_field(std::string_view field, const std::string& expected) {
  throw sdk::Failure(LF_E_DATA, fmt::format("field {}: expected {}", field, expected));
}

std::span<const float> finite_floats(std::string_view field, const lf_tensor& tensor) {
  if (tensor.dtype != LF_DTYPE_F32) refuse_field(field, "f32");
  const std::span<const float> values(static_cast<const float*>(tensor.data),
                                      static_cast<size_t>(sdk::element_count(tensor)));
  const auto wrong = std::find_if(values.begin(), values.end(), [](float value) { return !std::isfinite(value); });
  if (wrong != values.end())
    refuse_field(field, fmt::format("finite values, got {} at {}", *wrong, wrong - values.begin()));
  return values;
}

Fields::Fields(std::span<const lf_named_tensor> fields, std::string family) : family_(std::move(family)) {
  for (const lf_named_tensor& field : fields) {
    check_contiguous(field.tensor, sdk::view(field.name));
    tensors_[std::string(sdk::view(field.name))] = &field.tensor;
  }
}

const lf_tensor* Fields::find(const char* name) {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) return nullptr;
  const lf_tensor* tensor = found->second;
  tensors_.erase(found);
  return tensor;
}

std::vector<int64_t> Fields::integers(const char* name, const lf_tensor& tensor) const {
  const auto n = static_cast<size_t>(sdk::element_count(tensor));
  std::vector<int64_t> out(n);
  if (tensor.dtype == LF_DTYPE_I64) {
    std::copy_n(static_cast<const int64_t*>(tensor.data), n, out.begin());
  } else if (tensor.dtype == LF_DTYPE_I32) {
    std::copy_n(static_cast<const int32_t*>(tensor.data), n, out.begin());
  } else {
    refuse_field(name, "64 or 32 bit integers");
  }
  return out;
}

std::optional<std::vector<int64_t>> Fields::integers(const char* name, int64_t length) {
  const lf_tensor* tensor = find(name);
  if (tensor == nullptr) return std::nullopt;
  if (sdk::element_count(*tensor) != length)
    refuse_field(name, fmt::format("{} values, got {}", length, sdk::element_count(*tensor)));
  return integers(name, *tensor);
}

void Fields::ignore(std::initializer_list<const char*> names) {
  for (const char* name : names) tensors_.erase(name);
}

void Fields::refuse_the_rest() const {
  if (!tensors_.empty())
    throw sdk::Failure(LF_E_DATA, fmt::format("field {}: {} has no such input", tensors_.begin()->first, family_));
}

TokenRows read_tokens(Fields& fields, int64_t vocabulary) {
  const lf_tensor* input_ids = fields.find("input_ids");
  if (input_ids == nullptr || input_ids->ndim < 1 || input_ids->ndim > 2) refuse_field("input_ids", "[B, T] or [T]");
  const int64_t width = input_ids->shape[input_ids->ndim - 1], batch = input_ids->ndim == 2 ? input_ids->shape[0] : 1;
  const std::vector<int64_t> ids = fields.integers("input_ids", *input_ids);
  for (const int64_t id : ids)
    if (id < 0 || id >= vocabulary)
      refuse_field("input_ids", fmt::format("ids from 0 to {}, got {}", vocabulary - 1, id));
  const int64_t count = batch * width;
  const auto mask = fields.integers("attention_mask", count);
  const auto labels = fields.integers("labels", count);
  if (labels)
    for (const int64_t label : *labels)
      if (label != kUnsupervised && (label < 0 || label >= vocabulary))
        refuse_field("labels", fmt::format("{} or ids from 0 to {}, got {}", kUnsupervised, vocabulary - 1, label));

  std::vector<int64_t> starts;  // of the sequences, in flat rows
  for (int64_t b = 0; b <= batch; ++b) starts.push_back(b * width);
  if (const lf_tensor* given = fields.find("cu_seqlens")) {
    if (batch != 1) refuse_field("cu_seqlens", "one row of input_ids beside it");
    starts = fields.integers("cu_seqlens", *given);
    if (starts.size() < 2 || starts.front() != 0 || starts.back() != width ||
        !std::is_sorted(starts.begin(), starts.end()))
      refuse_field("cu_seqlens", fmt::format("ascending starts from 0 to {}", width));
  }
  TokenRows rows;
  rows.count = static_cast<int64_t>(starts.size()) - 1;
  for (size_t s = 0; s + 1 < starts.size(); ++s) {
    Sequence sequence;
    for (int64_t flat = starts[s]; flat < starts[s + 1]; ++flat) {
      const auto at = static_cast<size_t>(flat);
      if (mask && (*mask)[at] == 0) continue;
      sequence.ids.push_back(ids[at]);
      sequence.labels.push_back(labels ? (*labels)[at] : kUnsupervised);
      sequence.source_rows.push_back(flat);
    }
    if (sequence.ids.empty()) continue;  // all padding
    rows.sequences.push_back(std::move(sequence));
    rows.numbers.push_back(static_cast<int64_t>(s));
  }
  if (rows.sequences.empty()) refuse_field("input_ids", "at least one row that attention_mask keeps");
  return rows;
}

}  // namespace lf::family
