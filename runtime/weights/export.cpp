#include "weights/export.h"

#include <algorithm>
#include <map>
#include <mutex>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/log.h"
#include "weights/config_dtype.h"
#include "weights/read_tensor.h"

namespace lf {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kSlack = 1 << 20;         // for folders and rounding up to blocks
constexpr int64_t kChunkElements = 4 << 20;  // converted at a time

// diffusers opens its models, whose config.json names a class of its own, under another name than transformers.
std::string weights_stem(const std::string& config) {
  const nlohmann::json root = nlohmann::json::parse(config, nullptr, false);
  return root.is_object() && root.contains("_class_name") ? "diffusion_pytorch_model" : "model";
}

std::vector<size_t> own_parameters(const std::vector<ParameterInfo>& table) {
  std::vector<size_t> own;
  for (size_t i = 0; i < table.size(); ++i) {
    if (table[i].tied_to < 0) own.push_back(i);
  }
  return own;
}

// The tensors of what the source lacks.
std::vector<TensorSpec> absent_tensors(const LoadPlan& plan, DType dtype) {
  std::vector<TensorSpec> specs;
  for (const size_t i : own_parameters(plan.table())) {
    if (!plan.is_absent(i)) continue;
    for (const ParameterPart& part : plan.table()[i].parts)
      for (int64_t index = 0; index < file_tensor_count(part); ++index)
        specs.push_back({file_tensor_name(part, index), dtype, file_tensor_shape(part)});
  }
  return specs;
}

// The floating type that most elements of a directory are in.
DType commonest_dtype(const ModelDirectory& source) {
  std::map<DType, int64_t> elements;
  for (const auto& file : source.files())
    for (const TensorEntry& tensor : file->tensors())
      if (is_float(tensor.dtype)) elements[tensor.dtype] += whole(tensor.shape).elements();
  const auto most = std::max_element(elements.begin(), elements.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == elements.end() ? DType::kF32 : most->first;
}

}  // namespace

struct ModelExport::Progress {
  std::mutex opening;
  std::atomic<uint64_t> written{0};
};

ModelExport::ModelExport(FileSystem& files, fs::path target)
    : files_(&files), target_(fs::absolute(target).lexically_normal()), progress_(std::make_unique<Progress>()) {
  if (!target_.has_filename()) target_ = target_.parent_path();
  temporary_ = target_;
  temporary_ += ".tmp";
}

ModelExport::ModelExport(ModelExport&& other) noexcept = default;

ModelExport::~ModelExport() {
  if (progress_ == nullptr || !created_) return;
  outputs_.clear();
  try {
    remove_tree(*files_, temporary_);
  } catch (const Error& error) {
    log::warning("{}", error.what());
  }
}

ModelExport ModelExport::over_source(FileSystem& files, const LoadPlan& plan, const fs::path& target,
                                     std::optional<DType> dtype, const std::string& config) {
  const ModelDirectory& source = plan.directory();
  if (plan.has_fp8() && !dtype)
    fail(Exit::kBadData,
         "{}: holds FP8 weights, which are read but not written; set [checkpoint] export_dtype to \"bf16\" or "
         "\"fp32\"",
         source.path().string());
  ModelExport made(files, target);
  made.table_ = plan.table();
  std::vector<std::string> except;
  std::vector<TensorSpec> added = absent_tensors(plan, dtype.value_or(commonest_dtype(source)));
  const bool adds = !added.empty();
  for (const auto& file : source.files()) {
    const std::string name = file->path().filename();
    except.push_back(name);
    const bool grows = adds && file == source.files().back();
    if (!dtype && !grows) {
      made.add_file(name, file->header());
      continue;
    }
    // The same tensors in the same order; plan() sorts by type and name, which is the order they came in where the
    // reference library wrote them.
    std::vector<TensorSpec> specs;
    for (const TensorEntry& tensor : file->tensors()) {
      const bool read = std::none_of(plan.unread().begin(), plan.unread().end(),
                                     [&](const StoredTensor& unread) { return unread.entry == &tensor; });
      if (read && plan.has_fp8() && tensor.name.ends_with("_scale_inv")) continue;
      TensorSpec spec = tensor;
      if (read && dtype) spec.dtype = *dtype;
      specs.push_back(std::move(spec));
    }
    if (grows) std::move(added.begin(), added.end(), std::back_inserter(specs));
    made.add_file(name, SafetensorsHeader::plan(std::move(specs), file->header().metadata()));
  }
  made.find_targets();
  for (const StoredTensor& tensor : plan.unread()) {
    const auto found = made.targets_.find(tensor.entry->name);
    if (found != made.targets_.end()) made.verbatim_.emplace_back(tensor, found->second);
  }
  const bool new_index = (dtype || adds) && !source.index_file().empty();
  if (new_index) {
    except.push_back(source.index_file());
    made.texts_.emplace_back(source.index_file(), index_text(made.indexed()));
  }
  if (const std::string& stated = config.empty() ? source.config() : config;
      (dtype || !config.empty()) && !stated.empty()) {
    except.push_back("config.json");
    made.texts_.emplace_back(
        "config.json", dtype ? config_with_dtype((source.path() / "config.json").string(), stated, *dtype) : stated);
  }
  made.copies_ = companion_files(source.path(), except, made.target_, made.left_out_);
  // The index ends like one of another format's weights, and is kept.
  if (!new_index && !source.index_file().empty()) {
    const fs::path index = source.path() / source.index_file();
    made.copies_.push_back({fs::canonical(index), source.index_file(), fs::file_size(index)});
  }
  std::erase(made.left_out_, source.index_file());
  for (const CopiedFile& copy : made.copies_) made.total_bytes_ += copy.bytes;
  for (const auto& [name, text] : made.texts_) made.total_bytes_ += text.size();
  return made;
}

ModelExport ModelExport::from_scratch(FileSystem& files, Scratch request, const fs::path& target) {
  ModelExport made(files, target);
  made.table_ = std::move(request.table);
  check_parameters(made.table_);
  // Files are filled in the order of the table, as the reference library fills them in the order of its state.
  std::vector<std::vector<TensorSpec>> groups(1);
  uint64_t in_group = 0;
  for (const size_t i : own_parameters(made.table_)) {
    for (const ParameterPart& part : made.table_[i].parts) {
      for (int64_t index = 0; index < file_tensor_count(part); ++index) {
        TensorSpec spec{file_tensor_name(part, index), request.dtype, file_tensor_shape(part)};
        const uint64_t bytes = lf::tensor_bytes(spec.dtype, spec.shape).value();
        if (in_group > 0 && in_group + bytes > request.max_file_bytes) {
          groups.emplace_back();
          in_group = 0;
        }
        groups.back().push_back(std::move(spec));
        in_group += bytes;
      }
    }
  }
  const std::string stem = weights_stem(request.config);
  for (size_t k = 0; k < groups.size(); ++k) {
    const std::string name = groups.size() == 1
                                 ? stem + ".safetensors"
                                 : fmt::format("{}-{:05}-of-{:05}.safetensors", stem, k + 1, groups.size());
    made.add_file(name, SafetensorsHeader::plan(std::move(groups[k]), {{"format", "pt"}}));
  }
  made.find_targets();
  made.texts_.emplace_back("config.json", config_with_dtype("config.json", request.config, request.dtype));
  if (groups.size() > 1) made.texts_.emplace_back(stem + ".safetensors.index.json", index_text(made.indexed()));
  if (!request.tokenizer.empty()) made.copies_ = tokenizer_files(request.tokenizer);
  for (const CopiedFile& copy : made.copies_) made.total_bytes_ += copy.bytes;
  for (const auto& [name, text] : made.texts_) made.total_bytes_ += text.size();
  return made;
}

void ModelExport::add_file(std::string name, SafetensorsHeader header) {
  total_bytes_ += header.file_size();
  outputs_.push_back({std::move(name), std::move(header), nullptr});
}

void ModelExport::find_targets() {
  for (size_t file = 0; file < outputs_.size(); ++file) {
    for (const TensorEntry& tensor : outputs_[file].header.tensors()) targets_[tensor.name] = {file, &tensor};
  }
  aliases_.resize(table_.size());
  for (size_t i = 0; i < table_.size(); ++i) {
    aliases_[table_[i].tied_to < 0 ? i : static_cast<size_t>(table_[i].tied_to)].push_back(i);
    for (const ParameterPart& part : table_[i].parts) {
      for (int64_t index = 0; index < file_tensor_count(part); ++index) {
        const auto found = targets_.find(file_tensor_name(part, index));
        if (found != targets_.end()) tensor_bytes_ += found->second.entry->size();
      }
    }
  }
}

std::vector<IndexedTensor> ModelExport::indexed() const {
  std::vector<IndexedTensor> all;
  for (const File& file : outputs_) {
    for (const TensorEntry& tensor : file.header.tensors())
      all.push_back({tensor.name, file.name, tensor.size(), static_cast<uint64_t>(whole(tensor.shape).elements())});
  }
  return all;
}

void ModelExport::add(const std::vector<ExtraFile>& extra) {
  for (const ExtraFile& file : extra) {
    const bool written =
        std::any_of(texts_.begin(), texts_.end(), [&](const auto& own) { return own.first == file.name; }) ||
        std::any_of(outputs_.begin(), outputs_.end(), [&](const File& own) { return own.name == file.name; });
    if (written) fail(Exit::kBug, "{}: {} is saved twice", target_.string(), file.name);
    std::erase_if(copies_, [&](const CopiedFile& copy) {
      if (copy.relative != file.name) return false;
      total_bytes_ -= copy.bytes;
      return true;
    });
    texts_.emplace_back(file.name, file.bytes);
    total_bytes_ += file.bytes.size();
  }
}

void ModelExport::create() {
  const uint64_t available = files_->available_bytes(target_);
  if (available < total_bytes_ + kSlack)
    fail(Exit::kCannotCreate,
         "{}: a model of {} bytes and a margin of {} need {} bytes, but {} are free; free some space", target_.string(),
         fmt::group_digits(total_bytes_), fmt::group_digits(kSlack), fmt::group_digits(total_bytes_ + kSlack),
         fmt::group_digits(available));
  std::error_code code;
  fs::create_directories(target_.parent_path(), code);
  if (code) throw FileError(code.value(), "mkdir", target_.parent_path());
  remove_tree(*files_, temporary_);
  files_->make_directory(temporary_);
  created_ = true;
  for (File& file : outputs_) {
    file.out = files_->create(temporary_ / file.name, file.header.file_size());
    file.out->write(0, file.header.text().data(), file.header.text().size());
  }
  for (const auto& [tensor, to] : verbatim_)
    opened(to.file).write(to.entry->begin, tensor.bytes().data(), tensor.bytes().size());
  for (const auto& [name, text] : texts_) write_file(*files_, temporary_ / name, text);
  copy_files(*files_, copies_, temporary_);
}

OutputFile& ModelExport::opened(size_t file) {
  const std::lock_guard lock(progress_->opening);
  if (outputs_[file].out == nullptr) outputs_[file].out = files_->open(temporary_ / outputs_[file].name);
  return *outputs_[file].out;
}

void ModelExport::write(size_t parameter, const Place& place, const Box& local, DType dtype, const void* values) {
  if (table_[parameter].tied_to >= 0) return;
  for (const size_t described_by : aliases_[parameter]) write_as(described_by, place, local, dtype, values);
}

void ModelExport::write_as(size_t described_by, const Place& place, const Box& local, DType dtype, const void* values) {
  const ParameterInfo& parameter = table_[described_by];
  ConstBoxView from = packed(values, dtype, local);
  std::vector<std::byte> chunk;
  for (const Fragment& fragment : fragments(parameter, place, local)) {
    const auto found = targets_.find(file_tensor_name(parameter.parts[fragment.part], fragment.index));
    if (found == targets_.end()) continue;  // the other name of a tie, which files do not hold
    const TensorEntry& entry = *found->second.entry;
    OutputFile& out = opened(found->second.file);
    // By blocks of the file's rows, so that conversion needs a few megabytes whatever the tensor.
    const Box& box = fragment.file;
    const int64_t rows = box.ndim == 0 ? 1 : box.extent(0);
    const int64_t step =
        std::max<int64_t>(1, kChunkElements / std::max<int64_t>(1, box.elements() / std::max<int64_t>(rows, 1)));
    const int lead = fragment.local.ndim - box.ndim;
    const int row_axis = lead + (fragment.transposed && box.ndim == 2 ? 1 : 0);
    for (int64_t row = 0; row < rows; row += step) {
      Box block = box;
      from.box = relative_to(fragment.local, local);
      if (box.ndim > 0) {
        block.begin[0] = box.begin[0] + row;
        block.end[0] = std::min(box.end[0], block.begin[0] + step);
        from.box.begin[row_axis] += row;
        from.box.end[row_axis] = from.box.begin[row_axis] + block.extent(0);
      }
      const auto bytes = static_cast<size_t>(block.elements() * dtype_bytes(entry.dtype));
      chunk.resize(bytes);
      copy_box(from, packed(chunk.data(), entry.dtype, block), fragment.transposed);
      write_box(out, entry, block, chunk.data());
      progress_->written += bytes;
    }
  }
}

uint64_t ModelExport::written_bytes() const { return progress_->written; }

void ModelExport::sync() {
  for (File& file : outputs_) {
    if (file.out != nullptr) file.out->sync();
  }
}

void ModelExport::publish(uint64_t written) {
  if (written != tensor_bytes_)
    fail(Exit::kBug, "{}: {} bytes of parameters were handed over, the model has {}", target_.string(), written,
         tensor_bytes_);
  sync();
  for (File& file : outputs_) file.out.reset();
  files_->sync_directory(temporary_);
  replace_tree(*files_, temporary_, target_);
  created_ = false;
}

}  // namespace lf
