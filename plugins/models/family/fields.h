// Samples given as tensors, field by field: each is checked where it is read, and what nobody read is refused.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "family/sequence.h"
#include "lf/plugin_api/tensor.h"

namespace lf::family {

// Throws sdk::Failure LF_E_DATA "field NAME: expected ...".
[[noreturn]] void refuse_field(std::string_view field, const std::string& expected);

// The values of a field of f32. Throws for other types and for values that are not finite, with the first one's place.
std::span<const float> finite_floats(std::string_view field, const lf_tensor& tensor);

class Fields {
 public:
  // `family` for messages. The tensors outlive this. Throws for one that is not contiguous in host memory.
  Fields(std::span<const lf_named_tensor> fields, std::string family);

  // Null where there is none. A field that was found is read.
  const lf_tensor* find(const char* name);
  // 64 or 32 bit integers, flat.
  std::vector<int64_t> integers(const char* name, const lf_tensor& tensor) const;
  // Of a given length; nothing where there is no such field.
  std::optional<std::vector<int64_t>> integers(const char* name, int64_t length);
  void ignore(std::initializer_list<const char*> names);
  void refuse_the_rest() const;

 private:
  std::string family_;
  std::map<std::string, const lf_tensor*, std::less<>> tensors_;
};

// The token fields of transformers' models:
//   input_ids       i64 or i32 [B, T] or [T]
//   attention_mask  [B, T]; rows with 0 are left out
//   labels          [B, T], not shifted, -100: not learnt; without them nothing is
//   cu_seqlens      [S + 1]; B must be 1: the row holds S sequences one after another
// Sequences without a row left are left out; `numbers` says which of `count` the others are. source_rows are flat
// indices into [B, T].
struct TokenRows {
  std::vector<Sequence> sequences;
  std::vector<int64_t> numbers;
  int64_t count = 0;
};
TokenRows read_tokens(Fields& fields, int64_t vocabulary);

}  // namespace lf::family
