// A parameter as the runtime knows it: lf_param and lf_part of the plugin ABI with owned strings.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lf/plugin_api/slice.h"

namespace lf {

// One piece of a parameter as files hold it (lf_part). `shape` is the parameter's side: after stacking and transposing.
struct ParameterPart {
  std::string name;  // file tensor; with LF_PART_STACK "{}" stands for the index
  std::vector<int64_t> shape;
  uint32_t flags = 0;  // LF_PART_...
  int32_t axis = 0;    // the axis along which it is cut
  int32_t along = LF_ALONG_NONE;
  int64_t piece = 1;            // rows of `axis` that stay together
  int64_t stack = 0;            // file tensors; 0 without LF_PART_STACK
  std::string class_name = {};  // what the class that opens the files calls it; empty: as name
};

// A or B of an adapter: the host's own, of which no model directory knows.
inline constexpr uint32_t kParameterAdapter = 1u << 31;
// What begins the name of every tensor of a directory of adapters: what peft calls the model that it wraps.
inline constexpr std::string_view kAdapterPrefix = "base_model.model.";

struct ParameterInfo {
  std::string name;
  std::vector<int64_t> shape;  // uncut
  std::vector<ParameterPart> parts;
  int32_t join_axis = 0;
  uint32_t flags = 0;            // LF_PARAM_..., and kParameterAdapter
  int32_t init = LF_INIT_ZEROS;  // LF_INIT_..., with its two numbers
  double init_a = 0, init_b = 0;
  double sign_step = 0;         // lf_param.sign_step
  std::string class_name = {};  // lf_param.class_name
  int64_t tied_to = -1;         // index, in the table, of the earlier parameter whose values it shares; -1: its own
};

// Throws lf::Error(kConfig) that names the parameter where shapes, axes, parts or ties do not fit together. Everything
// below trusts a checked table.
void check_parameters(const std::vector<ParameterInfo>& table);

// File tensors of a part: `stack` of them, or one. Index is 0 where there is no stack.
int64_t file_tensor_count(const ParameterPart& part);
std::string file_tensor_name(const ParameterPart& part, int64_t index);
std::vector<int64_t> file_tensor_shape(const ParameterPart& part);

}  // namespace lf
