#include "train/export_command.h"

#include <optional>
#include <string_view>

#include "checkpoint/checkpoint.h"
#include "config/config.h"
#include "core/error.h"
#include "core/log.h"
#include "train/saved_files.h"
#include "train/saving.h"
#include "train/session.h"
#include "train/weights.h"

namespace lf {
namespace {

constexpr std::string_view kUsage =
    "usage: lfrun export CHECKPOINT OUT [--dtype source|fp32|bf16 | --adapter] [--weights trained|ema]";

struct Request {
  std::filesystem::path checkpoint, out;
  std::string dtype = "source";
  bool adapter = false;
  std::string weights;  // empty: as the job says
};

// Nothing where only help was wanted.
std::optional<Request> parse(std::span<const std::string> arguments) {
  Request request;
  std::vector<std::string> words;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--dtype" && i + 1 < arguments.size())
      request.dtype = arguments[++i];
    else if (arguments[i] == "--weights" && i + 1 < arguments.size())
      request.weights = arguments[++i];
    else if (arguments[i] == "--adapter")
      request.adapter = true;
    else
      words.push_back(arguments[i]);
  }
  if (words == std::vector<std::string>{"--help"}) return std::nullopt;
  for (const std::string& word : words)
    if (word.starts_with("-"))
      fail(Exit::kUsage, "lfrun export: option {} is unknown, or lacks its value; {}", word, kUsage);
  if (words.size() != 2) fail(Exit::kUsage, "lfrun export: expected a checkpoint and a folder to write; {}", kUsage);
  if (request.dtype != "source" && request.dtype != "fp32" && request.dtype != "bf16")
    fail(Exit::kUsage, "lfrun export: --dtype is source, fp32 or bf16, got {}", request.dtype);
  if (!request.weights.empty() && request.weights != "trained" && request.weights != "ema")
    fail(Exit::kUsage, "lfrun export: --weights is trained or ema, got {}", request.weights);
  for (const std::string& word : words)
    if (word.empty())
      fail(Exit::kUsage, "lfrun export: got an empty text for {}; {}",
           words[0].empty() ? "the checkpoint" : "the folder to write", kUsage);
  request.checkpoint = std::filesystem::absolute(words[0]).lexically_normal();
  request.out = std::filesystem::absolute(words[1]).lexically_normal();
  if (std::error_code error; std::filesystem::exists(request.out, error))
    fail(Exit::kCannotCreate, "{}: exists already; name a folder that does not", request.out.string());
  return request;
}

Checkpoint open_checkpoint(const std::filesystem::path& path) {
  if (std::error_code error; !std::filesystem::is_directory(path, error))
    fail(Exit::kInputMissing, "{}: expected a step-... folder or a run directory, got {}", path.string(),
         std::filesystem::exists(path, error) ? "a file" : "nothing there");
  if (std::filesystem::exists(path / "manifest.json")) return Checkpoint::open(path, Verify::kHashes);
  const std::filesystem::path folder = std::filesystem::exists(path / "ckpt") ? path / "ckpt" : path;
  ResumePoint point = find_resume_point(folder, Verify::kHashes, "restore one of them from a copy");
  if (!point.checkpoint)
    fail(Exit::kInputMissing, "{}: no checkpoint there; name a step-... folder or a run directory", path.string());
  for (const std::string& skipped : point.skipped) log::warning("{}", skipped);
  return std::move(*point.checkpoint);
}

}  // namespace

int run_export(std::span<const std::string> arguments, const PluginPlaces& places) {
  const std::optional<Request> parsed = parse(arguments);
  if (!parsed) {
    fmt::print("{}\n", kUsage);
    return static_cast<int>(Exit::kDone);
  }
  const Request& request = *parsed;
  const Checkpoint checkpoint = open_checkpoint(request.checkpoint);
  const std::filesystem::path run = checkpoint.path().parent_path().parent_path();
  JobConfig config = load_job(run / "config.toml", {"device.name=\"cpu\"", "precision.compute=\"fp32\""});
  config.plugins = places;
  SessionOptions options;
  options.open_policy = false;
  const Session session(config, options);
  const Description& description = session.model->description();
  if (request.adapter && description.adapters.empty())
    fail(Exit::kUsage, "lfrun export: --adapter: {} trained no adapters; leave it out", run.string());
  const ParameterStore store(description, freeze(description, config.model.freeze, config.lora.also_train),
                             *session.device, LF_DTYPE_F32);
  const WeightSource source(config, description);
  source.fill(store, config.job.seed);
  const bool averaged =
      request.weights.empty() ? config.ema.decay > 0 && config.ema.export_as == "instead" : request.weights == "ema";
  if (averaged && config.ema.decay == 0)
    fail(Exit::kUsage,
         "{}: --weights ema: expected a run with ema.decay above 0, got one that kept no average; "
         "export --weights trained",
         request.checkpoint.string());
  for (const ParameterSlot& slot : store.slots()) {
    const ParameterInfo& parameter = description.parameters[slot.parameter];
    if (slot.trained)
      checkpoint.read(parameter.name + (averaged ? kAverageSuffix : ""), parameter.shape, DType::kF32,
                      store.master().data() + slot.offset);
  }
  const std::vector<ExtraFile> extra = saved_files(session);
  if (request.adapter)
    source.export_adapters(store, config, session.model_config, extra, request.out);
  else
    source.export_model(store, request.dtype, session.model_config, tokenizer_folder(config), extra, request.out);
  fmt::print("{}: step {}{}\n", request.out.string(), checkpoint.state().step, averaged ? ", moving average" : "");
  return static_cast<int>(Exit::kDone);
}

}  // namespace lf
