#include "train/saved_files.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "lf/plugin_sdk/guard.hpp"
#include "lf/plugin_sdk/tensor.hpp"

namespace lf {
namespace {

constexpr uint32_t kMostFiles = 256;

bool is_plain(const std::filesystem::path& name) {
  return !name.empty() && !name.has_parent_path() && name != "." && name != "..";
}

}  // namespace

std::vector<ExtraFile> saved_files(const Session& session) {
  if (session.model_files == nullptr) return {};
  lf_err err = sdk::make_err();
  std::vector<lf_named_tensor> given(kMostFiles, sdk::with_header<lf_named_tensor>());
  uint32_t n = 0;
  if (session.model_files->files(session.model->handle(), given.data(), kMostFiles, &n, &err) != LF_OK) {
    log::warning(
        "{}; what belongs to the job's data beside the weights is not saved, and files of it that the model's own "
        "directory had are copied as they are: mend it and export a checkpoint again (lfrun export)",
        err.message);
    return {};
  }
  if (n > kMostFiles)
    fail(Exit::kBug, "model plugin {}: {} files to save, at most {} are taken", session.model->plugin_id(), n,
         kMostFiles);
  std::vector<ExtraFile> files;
  std::optional<std::string> wrong;
  for (lf_named_tensor& file : std::span(given).first(n)) {
    const std::string name(sdk::view(file.name));
    if (!is_plain(name) || file.tensor.dtype != LF_DTYPE_U8 || file.tensor.ndim != 1)
      wrong = name;
    else
      files.push_back({name, {static_cast<const char*>(file.tensor.data), static_cast<size_t>(file.tensor.shape[0])}});
    sdk::release(file.tensor);
  }
  if (wrong)
    fail(Exit::kBug, "model plugin {}: file to save \"{}\": expected u8 [bytes] and a name without a folder",
         session.model->plugin_id(), *wrong);
  return files;
}

}  // namespace lf
