// Parameter tables and files with known values.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "mesh/parameter.h"
#include "weights/convert.h"
#include "weights/safetensors.h"

namespace lf::test {

inline ParameterPart part(std::string name, std::vector<int64_t> shape, uint32_t flags = 0,
                          int32_t along = LF_ALONG_NONE, int32_t axis = 0, int64_t piece = 1) {
  ParameterPart made;
  made.name = std::move(name);
  made.shape = std::move(shape);
  made.flags = flags;
  made.along = along;
  made.axis = axis;
  made.piece = piece;
  return made;
}

inline ParameterInfo parameter(std::string name, std::vector<ParameterPart> parts, int32_t join_axis = 0) {
  ParameterInfo made;
  made.name = std::move(name);
  made.shape = parts[0].shape;
  made.join_axis = join_axis;
  for (size_t k = 1; k < parts.size(); ++k) made.shape[join_axis] += parts[k].shape[join_axis];
  made.parts = std::move(parts);
  return made;
}

// The model of fixtures/sharded: q and k fused, cut by tp.
inline std::vector<ParameterInfo> sharded_table() {
  std::vector<ParameterInfo> table = {parameter("embed.weight", {part("embed.weight", {40, 6}, 0, LF_ALONG_TP, 0, 8)})};
  for (int layer = 0; layer < 3; ++layer) {
    const std::string prefix = "layers." + std::to_string(layer) + ".";
    table.push_back(parameter(prefix + "attn.qk.weight",
                              {part(prefix + "attn.q.weight", {8, 6}, 0, LF_ALONG_TP, 0, 2),
                               part(prefix + "attn.k.weight", {4, 6}, LF_PART_COPY, LF_ALONG_TP, 0, 2)}));
    table.push_back(parameter(prefix + "mlp.weight", {part(prefix + "mlp.weight", {16, 6}, 0, LF_ALONG_TP, 1, 1)}));
  }
  return table;
}

// A value that tells tensor and place, exact in fp32.
inline float number_of(const std::string& tensor, int64_t element) {
  return static_cast<float>(static_cast<int64_t>(std::hash<std::string>{}(tensor) % 7) * 1'000'000 + element);
}

inline void write_numbered(const std::filesystem::path& path, const std::vector<TensorSpec>& specs) {
  const SafetensorsHeader header = SafetensorsHeader::plan(specs, {{"format", "pt"}});
  PosixFileSystem files;
  const auto out = files.create(path, header.file_size());
  out->write(0, header.text().data(), header.text().size());
  for (const TensorEntry& entry : header.tensors()) {
    if (!is_float(entry.dtype)) continue;  // left as zeros
    std::vector<float> values(static_cast<size_t>(whole(entry.shape).elements()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = number_of(entry.name, static_cast<int64_t>(i));
    std::vector<char> bytes(entry.size());
    convert(DType::kF32, values.data(), entry.dtype, bytes.data(), static_cast<int64_t>(values.size()));
    out->write(entry.begin, bytes.data(), bytes.size());
  }
}

}  // namespace lf::test
