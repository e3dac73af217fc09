#include "core/error.h"
#include "weights/safetensors.h"

namespace lf {

SafetensorsFile::SafetensorsFile(std::filesystem::path path)
    : file_(std::move(path)),
      header_(SafetensorsHeader::parse(file_.path().string(), file_.bytes(), file_.bytes().size())) {}

const TensorEntry& SafetensorsFile::at(std::string_view name) const {
  const TensorEntry* found = find(name);
  if (found == nullptr) fail(Exit::kBadData, "{}: has no tensor \"{}\"", path().string(), printable(name));
  return *found;
}

void write_box(OutputFile& file, const TensorEntry& tensor, const Box& box, const void* data) {
  const auto bytes = static_cast<uint64_t>(dtype_bytes(tensor.dtype));
  const char* from = static_cast<const char*>(data);
  for_each_run(tensor.shape, box, [&](int64_t offset, int64_t length) {
    file.write(tensor.begin + static_cast<uint64_t>(offset) * bytes, from, static_cast<uint64_t>(length) * bytes);
    from += static_cast<uint64_t>(length) * bytes;
  });
}

}  // namespace lf
