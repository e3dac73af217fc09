// The header of a safetensors file: what it accepts has tensors that lie inside the file, and only once.
#include "weights/safetensors.h"

#include "core/error.h"
#include "fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  for (const uint64_t file_size : {uint64_t{size}, uint64_t{size} + 1000}) {
    try {
      const auto header = lf::SafetensorsHeader::parse("file", bytes, file_size);
      uint64_t at = header.text().size();
      for (const lf::TensorEntry& tensor : header.tensors()) {
        if (tensor.begin != at || tensor.end < tensor.begin || tensor.end > file_size) __builtin_trap();
        at = tensor.end;
        if (header.find(tensor.name) != &tensor) __builtin_trap();
      }
      if (at != file_size) __builtin_trap();
    } catch (const lf::Error& error) {
      lf::fuzz::check_message(error.what());
    }
  }
  return 0;
}
