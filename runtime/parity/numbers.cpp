#include "parity/numbers.h"

#include <cstring>

#include "core/error.h"
#include "lf/plugin_sdk/tensor.hpp"
#include "mesh/slices.h"
#include "weights/read_tensor.h"
#include "weights/weights.h"

namespace lf {
namespace {

template <typename T>
void widen(std::span<const std::byte> bytes, std::vector<float>& out) {
  for (size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    out[i] = static_cast<float>(value);
  }
}

}  // namespace

Arrays read_arrays(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  Arrays arrays;
  for (const TensorEntry& entry : file.tensors()) {
    Array array{entry.shape, std::vector<float>(static_cast<size_t>(whole(entry.shape).elements()))};
    const std::span<const std::byte> bytes = file.bytes(entry);
    switch (entry.dtype) {
      case DType::kI64:
        widen<int64_t>(bytes, array.values);
        break;
      case DType::kI32:
        widen<int32_t>(bytes, array.values);
        break;
      case DType::kU8:
      case DType::kBool:
        widen<uint8_t>(bytes, array.values);
        break;
      default:
        convert(entry.dtype, bytes.data(), DType::kF32, array.values.data(), static_cast<int64_t>(array.values.size()));
    }
    arrays.emplace(entry.name, std::move(array));
  }
  return arrays;
}

void write_arrays(const Arrays& arrays, const std::filesystem::path& path) {
  std::vector<TensorSpec> specs;
  for (const auto& [name, array] : arrays) specs.push_back(TensorSpec{name, DType::kF32, array.shape});
  const SafetensorsHeader header = SafetensorsHeader::plan(std::move(specs), {{"format", "pt"}});
  PosixFileSystem files;
  const std::filesystem::path part = path.string() + ".part";
  std::filesystem::remove(part);
  {
    const auto out = files.create(part, header.file_size());
    out->write(0, header.text().data(), header.text().size());
    for (const TensorEntry& entry : header.tensors())
      out->write(entry.begin, arrays.at(entry.name).values.data(), entry.size());
  }
  files.rename(part, path);
}

Arrays gradients_by_file_tensor(const ParameterStore& store, const std::vector<uint8_t>& units_with_gradient) {
  Arrays arrays;
  for (const ParameterSlot& slot : store.slots()) {
    if (!slot.trained || !units_with_gradient[slot.unit]) continue;
    const ParameterInfo& parameter = store.description().parameters[slot.parameter];
    const float* gradient = store.gradients().data() + slot.offset;
    for (const Fragment& fragment : fragments(parameter, whole(parameter.shape))) {
      const ParameterPart& part = parameter.parts[static_cast<size_t>(fragment.part)];
      Array& array = arrays[file_tensor_name(part, fragment.index)];
      if (array.values.empty()) {
        array.shape = file_tensor_shape(part);
        array.values.resize(static_cast<size_t>(whole(array.shape).elements()));
      }
      copy_box({gradient, DType::kF32, parameter.shape, fragment.full},
               {array.values.data(), DType::kF32, array.shape, fragment.file}, fragment.transposed);
    }
  }
  return arrays;
}

Array to_array(const lf_tensor& tensor) {
  Array array;
  array.shape.assign(tensor.shape, tensor.shape + tensor.ndim);
  array.values.resize(static_cast<size_t>(sdk::element_count(tensor)));
  int64_t contiguous = 1;
  for (int32_t i = tensor.ndim; i-- > 0; contiguous *= tensor.shape[i])
    if (tensor.shape[i] > 1 && tensor.strides[i] != contiguous)
      fail(Exit::kBug, "an output of the model is not contiguous; outputs must be");
  convert(static_cast<DType>(tensor.dtype), tensor.data, DType::kF32, array.values.data(),
          static_cast<int64_t>(array.values.size()));
  return array;
}

}  // namespace lf
