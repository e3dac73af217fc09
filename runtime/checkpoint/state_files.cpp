#include "checkpoint/state_files.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "core/error.h"

namespace lf {
namespace {

constexpr uint64_t kChunk = 4 << 20;  // hashed and written while it is in the cache

}  // namespace

StateTensor whole_tensor(std::string group, std::string name, DType dtype, std::vector<int64_t> shape,
                         const void* data) {
  const Box all = whole(shape);
  return {std::move(group), std::move(name), dtype, std::move(shape), {StatePiece{all, data}}};
}

StateFiles::StateFiles(const std::vector<StateTensor>& tensors, uint64_t max_file_bytes) {
  std::unordered_set<std::string_view> names;
  for (const StateTensor& tensor : tensors) {
    if (!names.insert(tensor.name).second) fail(Exit::kBug, "checkpoint: tensor {} is named twice", tensor.name);
  }
  std::vector<std::string> order;
  std::map<std::string, std::vector<std::vector<TensorSpec>>> groups;
  std::map<std::string, uint64_t> open_bytes;
  for (const StateTensor& tensor : tensors) {
    auto& parts = groups[tensor.group];
    if (parts.empty()) order.push_back(tensor.group);
    const uint64_t bytes = tensor_bytes(tensor.dtype, tensor.shape).value();
    uint64_t& in_part = open_bytes[tensor.group];
    if (parts.empty() || (in_part > 0 && in_part + bytes > max_file_bytes)) {
      parts.emplace_back();
      in_part = 0;
    }
    parts.back().push_back({tensor.name, tensor.dtype, tensor.shape});
    in_part += bytes;
  }
  for (const std::string& group : order) {
    auto& parts = groups[group];
    for (size_t k = 0; k < parts.size(); ++k) {
      File& file = files_.emplace_back();
      file.name = parts.size() == 1 ? group + ".safetensors"
                                    : fmt::format("{}-{:05}-of-{:05}.safetensors", group, k + 1, parts.size());
      file.header = SafetensorsHeader::plan(std::move(parts[k]), {});
    }
  }
}

uint64_t StateFiles::total_bytes() const {
  uint64_t total = 0;
  for (const File& file : files_) total += file.header.file_size();
  return total;
}

void StateFiles::create(FileSystem& files, const std::filesystem::path& folder) {
  folder_ = folder;
  for (File& file : files_) {
    const std::string& text = file.header.text();
    file.out = files.create(folder / file.name, file.header.file_size());
    file.out->write(0, text.data(), text.size());
    file.hash.add(text.data(), text.size());
    file.hashed = text.size();
  }
}

void StateFiles::open(FileSystem& files, const std::filesystem::path& folder) {
  folder_ = folder;
  for (File& file : files_) file.out = files.open(folder / file.name);
}

std::vector<uint64_t> StateFiles::write(const std::vector<StateTensor>& tensors) {
  std::unordered_map<std::string_view, const StateTensor*> by_name;
  for (const StateTensor& tensor : tensors) by_name[tensor.name] = &tensor;
  std::vector<uint64_t> written;
  for (File& file : files_) {
    for (const TensorEntry& entry : file.header.tensors()) write_tensor(file, entry, *by_name.at(entry.name));
    file.out->sync();
    file.out.reset();
    written.push_back(file.written);
  }
  return written;
}

void StateFiles::write_tensor(File& file, const TensorEntry& entry, const StateTensor& tensor) {
  const auto bytes = static_cast<uint64_t>(dtype_bytes(entry.dtype));
  Hash hash;
  std::vector<std::byte> fetched;  // a chunk of a piece that is not in the host's memory
  const uint64_t hashed_before = file.hashed;
  for (const StatePiece& piece : tensor.pieces) {
    if (!contains(whole(entry.shape), piece.box))
      fail(Exit::kBug, "checkpoint: a piece of {} lies outside it", entry.name);
    const auto* from = static_cast<const std::byte*>(piece.data);
    uint64_t taken = 0;  // of the piece
    for_each_run(entry.shape, piece.box, [&](int64_t offset, int64_t length) {
      uint64_t at = entry.begin + static_cast<uint64_t>(offset) * bytes;
      const uint64_t end = at + static_cast<uint64_t>(length) * bytes;
      while (at < end) {
        const uint64_t n = std::min(kChunk, end - at);
        if (piece.read) {
          fetched.resize(n);
          piece.read(taken, fetched);
          from = fetched.data();
        }
        if (at == file.hashed) {
          hash.add(from, n);
          file.hash.add(from, n);
          file.hashed += n;
        }
        file.out->write(at, from, n);
        file.written += n;
        from += n;
        taken += n;
        at += n;
      }
    });
  }
  if (hashed_before == entry.begin && file.hashed == entry.end) file.digest.tensors[entry.name] = hash.hex();
}

std::map<std::string, ManifestFile> StateFiles::finish(const std::vector<uint64_t>& written) {
  std::map<std::string, ManifestFile> all;
  for (size_t i = 0; i < files_.size(); ++i) {
    File& file = files_[i];
    const uint64_t expected = file.header.file_size() - file.header.text().size();
    if (written.at(i) != expected)
      fail(Exit::kBug, "checkpoint: {} bytes of {} were handed over, it has {}", written[i], file.name, expected);
    if (file.hashed == file.header.file_size() && file.written == expected) {
      file.digest.hash = file.hash.hex();
    } else {
      read_back(file);
    }
    file.digest.bytes = file.header.file_size();
    all[file.name] = std::move(file.digest);
  }
  return all;
}

void StateFiles::read_back(File& file) {
  const SafetensorsFile stored(folder_ / file.name);
  if (stored.header().text() != file.header.text())
    fail(Exit::kIo, "{}: what was read back is not what was written", stored.path().string());
  file.digest.tensors.clear();
  Hash hash;
  hash.add(stored.header().text().data(), stored.header().text().size());
  for (const TensorEntry& tensor : stored.tensors()) {
    const std::span<const std::byte> bytes = stored.bytes(tensor);
    hash.add(bytes.data(), bytes.size());
    file.digest.tensors[tensor.name] = hash_hex(bytes);
  }
  file.digest.hash = hash.hex();
}

}  // namespace lf
