#include "weights/copy_files.h"

#include <algorithm>
#include <array>
#include <set>

#include "weights/mapped_file.h"

namespace lf {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 9> kWeightFormats = {".safetensors", ".bin",  ".pt",   ".pth",    ".ckpt",
                                                            ".h5",          ".gguf", ".onnx", ".msgpack"};
// Files of the tokenizers and processors of transformers and diffusers.
constexpr std::array<std::string_view, 16> kTokenizerFiles = {"tokenizer.json",
                                                              "tokenizer_config.json",
                                                              "vocab.json",
                                                              "vocab.txt",
                                                              "merges.txt",
                                                              "special_tokens_map.json",
                                                              "added_tokens.json",
                                                              "tokenizer.model",
                                                              "spiece.model",
                                                              "sentencepiece.bpe.model",
                                                              "chat_template.json",
                                                              "chat_template.jinja",
                                                              "preprocessor_config.json",
                                                              "processor_config.json",
                                                              "video_preprocessor_config.json",
                                                              "generation_config.json"};

// What lerobot's policies keep of their data, beside the model: "policy_preprocessor_step_5_normalizer_processor".
constexpr std::array<std::string_view, 2> kProcessorStates = {"policy_preprocessor_step_",
                                                              "policy_postprocessor_step_"};

bool is_weights(const fs::path& file) {
  const std::string name = file.filename();
  for (const std::string_view state : kProcessorStates)
    if (name.starts_with(state)) return false;
  for (const std::string_view format : kWeightFormats) {
    if (name.ends_with(format)) return true;
    if (name.ends_with(std::string(format) + ".index.json")) return true;
  }
  return false;
}

bool lies_under(const fs::path& path, const fs::path& folder) {
  const auto [end, unused] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return end == folder.end();
}

void collect(const fs::path& directory, const fs::path& relative, const std::vector<std::string>& except,
             const fs::path& target, std::vector<CopiedFile>& found, std::vector<std::string>& left_out) {
  std::set<fs::path> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory / relative))
    names.insert(entry.path().filename());
  for (const fs::path& name : names) {
    const fs::path here = relative / name, source = directory / here;
    const fs::file_status status = fs::status(source);
    if (fs::is_directory(status)) {
      const bool hidden = name.string().starts_with('.');
      if (hidden || fs::is_symlink(source) || lies_under(target, fs::weakly_canonical(source))) continue;
      collect(directory, here, except, target, found, left_out);
    } else if (fs::is_regular_file(status)) {
      if (std::find(except.begin(), except.end(), here.string()) != except.end()) continue;
      if (is_weights(here)) {
        left_out.push_back(here.string());
        continue;
      }
      found.push_back({fs::canonical(source), here, fs::file_size(source)});
    } else if (fs::is_symlink(source)) {
      fail(Exit::kInputMissing, "{}: the link leads nowhere; fetch the file again, or remove the link",
           source.string());
    }
  }
}

}  // namespace

std::vector<CopiedFile> companion_files(const fs::path& directory, const std::vector<std::string>& except,
                                        const fs::path& target, std::vector<std::string>& left_out) {
  std::vector<CopiedFile> found;
  collect(directory, {}, except, fs::weakly_canonical(target), found, left_out);
  return found;
}

std::vector<CopiedFile> tokenizer_files(const fs::path& directory) {
  std::vector<CopiedFile> found;
  for (const std::string_view name : kTokenizerFiles) {
    const fs::path source = directory / name;
    if (fs::is_regular_file(fs::status(source))) found.push_back({fs::canonical(source), name, fs::file_size(source)});
  }
  return found;
}

void copy_files(FileSystem& files, const std::vector<CopiedFile>& copies, const fs::path& target) {
  constexpr uint64_t kChunk = 8 << 20;
  std::set<fs::path> made;
  for (const CopiedFile& copy : copies) {
    fs::path folder = target;
    for (const fs::path& step : copy.relative.parent_path()) {
      folder /= step;
      if (made.insert(folder).second) files.make_directory(folder);
    }
    const MappedFile source(copy.source);
    const auto out = files.create(target / copy.relative, source.bytes().size());
    for (uint64_t at = 0; at < source.bytes().size(); at += kChunk) {
      const auto part = source.bytes().subspan(at, std::min(kChunk, source.bytes().size() - at));
      out->write(at, part.data(), part.size());
    }
    out->sync();
  }
  for (const fs::path& folder : made) files.sync_directory(folder);
}

}  // namespace lf
