#include "weights/directory.h"

#include <algorithm>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "core/error.h"

namespace lf {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxConfig = 64 << 20, kMaxIndex = 512 << 20;
constexpr std::string_view kStems[] = {"model", "diffusion_pytorch_model"};

bool has_other_weights(const fs::path& path) {
  for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
    const std::string extension = entry.path().extension();
    if (extension == ".bin" || extension == ".pt" || extension == ".pth" || extension == ".gguf") return true;
  }
  return false;
}

// weight_map of an index: tensor -> file. Events instead of a tree: one million tensors stay cheap, nesting is refused.
class IndexEvents {
 public:
  explicit IndexEvents(const std::string& place) : place_(place) {}
  std::map<std::string, std::string> map;

  bool null() { return true; }
  bool boolean(bool) { return value("a boolean"); }
  bool number_integer(int64_t) { return value("a number"); }
  bool number_unsigned(uint64_t) { return value("a number"); }
  bool number_float(double, const std::string&) { return value("a number"); }
  bool binary(nlohmann::json::binary_t&) { return value("binary"); }
  bool string(std::string& file) {
    if (!in_map()) return true;
    if (file.empty() || file.find('/') != file.npos || file.find('\0') != file.npos || file == "." || file == "..")
      fail(Exit::kBadData, "{}: tensor \"{}\": expected a file of the same folder, got \"{}\"", place_, printable(key_),
           printable(file));
    if (!map.emplace(key_, file).second)
      fail(Exit::kBadData, "{}: tensor \"{}\": expected each name once, got it twice", place_, printable(key_));
    return true;
  }
  bool start_object(size_t) { return deeper(); }
  bool start_array(size_t) { return in_map() ? value("a list") : deeper(); }
  bool end_object() { return --depth_, true; }
  bool end_array() { return --depth_, true; }
  bool key(std::string& name) {
    if (depth_ == 1) root_key_ = name;
    key_ = name;
    return true;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) {
    fail(Exit::kBadData, "{}: no valid JSON at byte {}", place_, position);
  }

 private:
  bool in_map() const { return depth_ == 2 && root_key_ == "weight_map"; }
  bool value(std::string_view what) {
    if (in_map())
      fail(Exit::kBadData, "{}: tensor \"{}\": expected a file name, got {}", place_, printable(key_), what);
    return true;
  }
  bool deeper() {
    if (++depth_ > 16 || (depth_ == 3 && root_key_ == "weight_map"))
      fail(Exit::kBadData, "{}: nested too deeply at \"{}\"", place_, printable(key_));
    return true;
  }

  const std::string& place_;
  std::string root_key_, key_;
  int depth_ = 0;
};

}  // namespace

ModelDirectory ModelDirectory::open(const fs::path& path) {
  std::error_code code;
  if (!fs::is_directory(path, code))
    fail(Exit::kInputMissing, "{}: expected a Hugging Face model folder, got {}", path.string(),
         fs::exists(path, code) ? "something else" : "nothing there; check [model] path");
  ModelDirectory directory;
  directory.path_ = path;
  if (const fs::path config = path / "config.json"; fs::exists(config, code))
    directory.config_ = read_text_file(config, kMaxConfig);

  for (const std::string_view stem : kStems) {
    const std::string single = std::string(stem) + ".safetensors", index = single + ".index.json";
    const bool has_single = fs::exists(path / single, code), has_index = fs::exists(path / index, code);
    if (has_single && has_index)
      fail(Exit::kBadData, "{}: has both {} and {}; remove the one that is not meant", path.string(), single, index);
    if (has_single) {
      directory.read_files({single});
      return directory;
    }
    if (has_index) {
      directory.index_file_ = index;
      directory.check_index(read_text_file(path / index, kMaxIndex));
      return directory;
    }
  }
  if (has_other_weights(path))
    fail(Exit::kBadData,
         "{}: expected safetensors, got weights in another format; convert them first (save_pretrained writes "
         "safetensors)",
         path.string());
  fail(Exit::kInputMissing,
       "{}: expected model.safetensors or model.safetensors.index.json, got neither; check [model] path",
       path.string());
}

void ModelDirectory::read_files(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    std::error_code code;
    if (!fs::exists(path_ / name, code))
      fail(Exit::kInputMissing, "{}: {} names this file, and it is missing; fetch it again", (path_ / name).string(),
           index_file_);
    files_.push_back(std::make_unique<SafetensorsFile>(path_ / name));
    for (const TensorEntry& tensor : files_.back()->tensors()) names_.push_back(tensor.name);
  }
  sort_names();
}

void ModelDirectory::check_index(const std::string& text) {
  const std::string place = (path_ / index_file_).string();
  if (text.find('\0') != text.npos) fail(Exit::kBadData, "{}: has a NUL at byte {}", place, text.find('\0'));
  IndexEvents events(place);
  nlohmann::json::sax_parse(text, &events);
  if (events.map.empty()) fail(Exit::kBadData, "{}: expected a weight_map of tensors, got none", place);
  std::set<std::string> files;
  for (const auto& [name, file] : events.map) files.insert(file);
  read_files({files.begin(), files.end()});
  for (const auto& file : files_) {
    for (const TensorEntry& tensor : file->tensors()) {
      const auto mapped = events.map.find(tensor.name);
      if (mapped == events.map.end())
        fail(Exit::kBadData, "{}: tensor \"{}\" is not in {}", file->path().string(), printable(tensor.name),
             index_file_);
      if (mapped->second != file->path().filename())
        fail(Exit::kBadData, "{}: tensor \"{}\" should be in {} alone, by {}", file->path().string(),
             printable(tensor.name), mapped->second, index_file_);
    }
  }
  if (names_.size() == events.map.size()) return;
  for (const auto& [name, file] : events.map) {
    if (find(name).file == nullptr)
      fail(Exit::kBadData, "{}: tensor \"{}\" should be in {}, and is not", place, printable(name), file);
  }
}

void ModelDirectory::sort_names() {
  for (const auto& file : files_) {
    for (const TensorEntry& tensor : file->tensors()) by_name_.push_back({file.get(), &tensor});
  }
  std::sort(by_name_.begin(), by_name_.end(),
            [](const StoredTensor& a, const StoredTensor& b) { return a.entry->name < b.entry->name; });
}

StoredTensor ModelDirectory::find(std::string_view name) const {
  const auto found =
      std::lower_bound(by_name_.begin(), by_name_.end(), name,
                       [](const StoredTensor& a, std::string_view wanted) { return a.entry->name < wanted; });
  return found != by_name_.end() && found->entry->name == name ? *found : StoredTensor{};
}

}  // namespace lf
