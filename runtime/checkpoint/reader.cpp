#include <set>

#include <fmt/ranges.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/hash.h"
#include "checkpoint/manifest.h"
#include "core/error.h"
#include "weights/read_tensor.h"

namespace lf {
namespace {

namespace fs = std::filesystem;
constexpr uint64_t kMaxManifest = 1 << 30, kMaxTrainer = 16 << 20, kMaxState = uint64_t{8} << 30;

// Which part of a file whose hash is wrong differs, as far as its header can still be read.
std::string broken_place(const MappedFile& file, const ManifestFile& expected) {
  if (expected.tensors.empty()) return "";
  try {
    const SafetensorsHeader header = SafetensorsHeader::parse(file.path().string(), file.bytes(), file.bytes().size());
    for (const TensorEntry& tensor : header.tensors()) {
      const auto hash = expected.tensors.find(tensor.name);
      if (hash == expected.tensors.end()) return ", in its header";
      if (hash->second != hash_hex(file.bytes().subspan(tensor.begin, tensor.size())))
        return fmt::format(", in tensor {}", tensor.name);
    }
  } catch (const Error&) {
  }
  return ", in its header";
}

void check_file(const fs::path& path, const ManifestFile& expected, Verify verify) {
  std::error_code code;
  if (!fs::exists(fs::symlink_status(path, code)))
    fail(Exit::kBadData, "{}: is missing, and the manifest lists it", path.string());
  if (!fs::is_regular_file(fs::symlink_status(path, code)))
    fail(Exit::kBadData, "{}: expected a regular file", path.string());
  const uint64_t bytes = fs::file_size(path, code);
  if (bytes != expected.bytes)
    fail(Exit::kBadData, "{}: expected {} bytes, got {}", path.string(), expected.bytes, bytes);
  if (verify == Verify::kSizes) return;
  Hash hash;
  for_each_chunk(path, [&](std::span<const std::byte> chunk) { hash.add(chunk.data(), chunk.size()); });
  if (hash.hex() != expected.hash)
    fail(Exit::kBadData, "{}: its bytes are not the ones that were saved{}", path.string(),
         broken_place(MappedFile(path), expected));
}

}  // namespace

Checkpoint Checkpoint::open(const fs::path& directory, Verify verify) {
  std::error_code code;
  if (!fs::is_directory(directory, code))
    fail(Exit::kInputMissing, "{}: expected the folder of a checkpoint, got {}", directory.string(),
         fs::exists(directory, code) ? "something else" : "nothing there");
  const fs::path manifest_path = directory / kManifestName;
  if (!fs::exists(manifest_path, code))
    fail(Exit::kBadData, "{}: is incomplete: it has no {}", directory.string(), kManifestName);
  const CheckpointManifest manifest =
      parse_manifest(manifest_path.string(), read_text_file(manifest_path, kMaxManifest));
  const fs::path name = directory.has_filename() ? directory.filename() : directory.parent_path().filename();
  if (const std::optional<int64_t> step = checkpoint_step(name); step && *step != manifest.step)
    fail(Exit::kBadData, "{}: was renamed: its manifest is of step {}", directory.string(), manifest.step);
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
    const std::string file = entry.path().filename();
    if (file != kManifestName && !manifest.files.contains(file))
      fail(Exit::kBadData, "{}: is no part of the checkpoint: the manifest does not list it", entry.path().string());
  }
  for (const char* required : {"trainer.json", "model_state.bin", "balance_state.bin"}) {
    if (!manifest.files.contains(required))
      fail(Exit::kBadData, "{}: does not list {}", manifest_path.string(), required);
  }
  Checkpoint opened;
  opened.path_ = directory;
  for (const auto& [file, expected] : manifest.files) {
    check_file(directory / file, expected, verify);
    if (file.ends_with(".safetensors")) opened.files_.push_back(std::make_unique<SafetensorsFile>(directory / file));
  }
  const fs::path trainer = directory / "trainer.json";
  opened.state_ = parse_trainer_state(trainer.string(), read_text_file(trainer, kMaxTrainer));
  opened.state_.model_state = read_text_file(directory / "model_state.bin", kMaxState);
  opened.state_.balance_state = read_text_file(directory / "balance_state.bin", kMaxState);
  if (opened.state_.step != manifest.step)
    fail(Exit::kBadData, "{}: is of step {}, the manifest of step {}", trainer.string(), opened.state_.step,
         manifest.step);
  return opened;
}

const TensorEntry* Checkpoint::find(std::string_view name) const {
  for (const auto& file : files_) {
    if (const TensorEntry* entry = file->find(name); entry != nullptr) return entry;
  }
  return nullptr;
}

std::vector<std::string> Checkpoint::names() const {
  std::vector<std::string> all;
  for (const auto& file : files_) {
    for (const TensorEntry& tensor : file->tensors()) all.push_back(tensor.name);
  }
  return all;
}

Checkpoint::Found Checkpoint::require(std::string_view name, std::span<const int64_t> shape) const {
  for (const auto& file : files_) {
    const TensorEntry* entry = file->find(name);
    if (entry == nullptr) continue;
    if (!std::equal(shape.begin(), shape.end(), entry->shape.begin(), entry->shape.end()))
      fail(Exit::kBadData, "{}: tensor {}: expected shape [{}], got [{}]; the model changed since it was saved",
           file->path().string(), name, fmt::join(shape, ", "), fmt::join(entry->shape, ", "));
    return {*file, *entry};
  }
  fail(Exit::kBadData, "{}: has no tensor {}; the model changed since it was saved", path_.string(), printable(name));
}

void Checkpoint::read(std::string_view name, std::span<const int64_t> shape, const Box& box, DType dtype,
                      void* out) const {
  const auto [file, entry] = require(name, shape);
  copy_box({file.bytes(entry).data(), entry.dtype, entry.shape, box}, packed(out, dtype, box), false);
}

void Checkpoint::read_elements(std::string_view name, std::span<const int64_t> shape, int64_t first,
                               std::span<float> out) const {
  const auto [file, entry] = require(name, shape);
  int64_t all = 1;
  for (const int64_t extent : shape) all *= extent;
  const auto n = static_cast<int64_t>(out.size());
  if (first < 0 || first + n > all)
    fail(Exit::kBug, "checkpoint: elements [{}, {}) of {}, which has {}", first, first + n, name, all);
  const std::vector<int64_t> flat{all};
  const Box part{.ndim = 1, .begin = {first}, .end = {first + n}};
  copy_box({file.bytes(entry).data(), entry.dtype, flat, part}, packed(out.data(), DType::kF32, part), false);
}

void Checkpoint::read(std::string_view name, std::span<const int64_t> shape, DType dtype, void* out) const {
  read(name, shape, whole(shape), dtype, out);
}

}  // namespace lf
