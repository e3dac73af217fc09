#include "parity/placing.h"

#include <algorithm>

#include "core/error.h"
#include "lf/plugin_sdk/tensor.hpp"

namespace lf {
namespace {

// Row by row back in the shape of the case's inputs.
Array scatter(const Array& packed, const std::vector<int64_t>& rows, const std::vector<int64_t>& shape) {
  Array full{shape, std::vector<float>(static_cast<size_t>(whole(shape).elements()))};
  const size_t columns = packed.values.size() / std::max<size_t>(rows.size(), 1);
  // The case may be wider than the longest sample where columns are rows of the sample.
  const size_t width = columns == 1 ? 1 : static_cast<size_t>(shape.back());
  if (columns > width) fail(Exit::kBug, "an output has {} columns, the reference {}", columns, width);
  for (size_t i = 0; i < rows.size(); ++i) {
    const size_t to = static_cast<size_t>(rows[i]) * width;
    if (to + columns > full.values.size()) fail(Exit::kBug, "source_row {} lies outside the case's rows", rows[i]);
    std::copy_n(packed.values.begin() + static_cast<std::ptrdiff_t>(i * columns), columns,
                full.values.begin() + static_cast<std::ptrdiff_t>(to));
  }
  return full;
}

}  // namespace

std::vector<int64_t> integers(const MicroBatch& batch, const std::string& name) {
  for (const lf_named_tensor& column : batch.columns)
    if (sdk::view(column.name) == name) {
      const auto* values = static_cast<const int64_t*>(column.tensor.data);
      return {values, values + sdk::element_count(column.tensor)};
    }
  return {};
}

Array place_back(Array made, const MicroBatch& batch, const std::string& name, const std::vector<int64_t>& shape) {
  if (const std::vector<int64_t> places = integers(batch, "place." + name); !places.empty()) {
    Array full{shape, std::vector<float>(static_cast<size_t>(whole(shape).elements()))};
    for (size_t i = 0; i < places.size(); ++i) full.values.at(static_cast<size_t>(places[i])) = made.values.at(i);
    return full;
  }
  if (const std::vector<int64_t> rows = integers(batch, "source_row"); !rows.empty()) return scatter(made, rows, shape);
  if (made.values.size() != static_cast<size_t>(whole(shape).elements()))
    fail(Exit::kBug, "output {} has {} values, the reference {}, and collate made no column place.{} or source_row",
         name, made.values.size(), whole(shape).elements(), name);
  made.shape = shape;
  return made;
}

}  // namespace lf
