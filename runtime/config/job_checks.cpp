#include "config/job_checks.h"

#include <fmt/format.h>

#include "config/options.h"

namespace lf {
namespace {

namespace fs = std::filesystem;

void check_limits(std::vector<JobProblem>& problems, std::string_view most_name, std::string_view least_name,
                  int64_t least, int64_t most) {
  if (least > 0 && most > 0 && least > most)
    problems.push_back({most_name, fmt::format("{} must be at least {}, got {} and {}; raise it, or lower the other",
                                               most_name, least_name, most, least)});
}

// By value: what a run records of a job says every option.
bool is_given(const JobConfig& config, std::string_view name) {
  const Option& option = *find_option(name);
  return option.get(config) != option.get(JobConfig{});
}

// Options that only matter where another has a certain value.
template <typename Sound>
void check_without_effect(std::vector<JobProblem>& problems, const JobConfig& config, const Sound& sound) {
  const auto has_none = [&](std::string_view name, std::string_view other, bool matters, std::string_view without,
                            std::string_view next) {
    if (!matters && sound({name, other}) && is_given(config, name))
      problems.push_back({name, fmt::format("{} has no effect {}; {}, or remove it", name, without, next)});
  };
  const std::string& schedule = config.schedule.name;
  has_none("schedule.decay_fraction", "schedule.name", schedule == "wsd",
           fmt::format("where schedule.name is {}", schedule), "set schedule.name = \"wsd\"");
  has_none("schedule.final_fraction", "schedule.name", schedule != "constant", "where schedule.name is constant",
           "set another schedule.name");
  has_none("checkpoint.export_dtype", "checkpoint.export_model", config.checkpoint.export_model,
           "where checkpoint.export_model is false", "set that to true");
  has_none("optimizer.max_skipped", "optimizer.on_nonfinite", config.optimizer.on_nonfinite == "skip",
           "where optimizer.on_nonfinite is stop", "set that to \"skip\"");
}

// One of a list of tables, in which nothing has been found wrong.
bool is_sound_table(const ResolvedJob& job, std::string_view option, size_t index) {
  return !job.broken.contains(fmt::format("{}[{}]", option, index));
}

template <typename Sound>
void check_lora(std::vector<JobProblem>& problems, const ResolvedJob& job, const Sound& sound) {
  const LoraSection& lora = job.config.lora;
  for (size_t i = 0; i < lora.groups.size(); ++i)
    if (is_sound_table(job, "lora.groups", i) && lora.groups[i].targets.empty())
      problems.push_back({"lora.groups", fmt::format("lora.groups: table {}: targets is required: patterns of the maps "
                                                     "that it is about",
                                                     i + 1)});
  if (!sound({"lora.targets", "lora.groups", "lora.path"})) return;
  if (!lora.path.empty() && (!lora.targets.empty() || !lora.groups.empty()))
    problems.push_back({"lora.path",
                        "expected lora.path, or lora.targets and lora.groups, got both: the directory says itself what "
                        "has adapters; remove one"});
  for (const std::string_view name : {"lora.rank", "lora.alpha", "lora.dropout", "lora.also_train"}) {
    const bool given = is_given(job.config, name);
    if (given && !lora.asked())
      problems.push_back({name, fmt::format("{} has no effect without adapters; set lora.targets, such as "
                                            "[\"*.q_proj\", \"*.v_proj\"]",
                                            name)});
    if (given && !lora.path.empty() && (name == "lora.rank" || name == "lora.alpha"))
      problems.push_back({name, fmt::format("{} is that of the adapters in lora.path; remove it", name)});
  }
}

}  // namespace

std::vector<JobProblem> check_job(const ResolvedJob& job) {
  const JobConfig& config = job.config;
  const auto sound = [&](std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names)
      if (job.broken.contains(name)) return false;
    return true;
  };
  std::vector<JobProblem> problems;

  if (sound({"job.steps", "job.epochs"})) {
    const auto given = [&](std::string_view name) { return job.origins.find(name)->second != "default"; };
    if (config.job.steps == 0 && config.job.epochs == 0) {
      if (given("job.steps"))
        problems.push_back({"job.steps", "job.steps: expected at least 1, got 0; how long to train?"});
      else if (given("job.epochs"))
        problems.push_back({"job.epochs", "job.epochs: expected more than 0, got 0; how long to train?"});
      else
        problems.push_back({"job.steps", "job.steps or job.epochs is required: how long to train"});
    }
    if (config.job.steps > 0 && config.job.epochs > 0)
      problems.push_back({"job.epochs", fmt::format("expected one of job.steps and job.epochs, got both ({} and {}); "
                                                    "remove one",
                                                    config.job.steps, config.job.epochs)});
  }
  if (sound({"model.family"}) && config.model.family.empty())
    problems.push_back({"model.family", "model.family is required: the model plugin; `lfrun plugins list` shows them"});
  if (sound({"model.path", "model.config"})) {
    // Without either, a family may take the whole model from [model.options]; its plugin says what it needs.
    if (config.model.path.empty() && config.model.config.empty() && config.model.options.empty())
      problems.push_back({job.origins.find("model.config")->second == "default" ? "model.path" : "model.config",
                          "model.path or model.config is required: a Hugging Face directory to start from, or "
                          "a config.json for random weights"});
    if (!config.model.path.empty() && !config.model.config.empty() && config.model.new_parameters.empty())
      problems.push_back({"model.config",
                          "expected one of model.path and model.config, got both; remove one: the first "
                          "brings its own config, the second starts from random weights (where the second has parts "
                          "that the first lacks, name these in model.new_parameters)"});
    if (config.model.path.empty() && !config.model.new_parameters.empty())
      problems.push_back({"model.new_parameters",
                          "model.new_parameters has no effect without model.path: everything begins at random; remove "
                          "it, or name the directory to start from"});
  }
  if (sound({"data.path"}) && config.data.path.empty())
    problems.push_back({"data.path", "data.path is required: JSONL files of samples, folders of them, or streams"});
  if (sound({"data.image_min_pixels", "data.image_max_pixels"}))
    check_limits(problems, "data.image_max_pixels", "data.image_min_pixels", config.data.image_min_pixels,
                 config.data.image_max_pixels);
  if (sound({"data.video_min_pixels", "data.video_max_pixels"}))
    check_limits(problems, "data.video_max_pixels", "data.video_min_pixels", config.data.video_min_pixels,
                 config.data.video_max_pixels);
  if (sound({"schedule.warmup_steps", "schedule.warmup_fraction"}) && config.schedule.warmup_steps > 0 &&
      config.schedule.warmup_fraction > 0)
    problems.push_back({"schedule.warmup_fraction",
                        "expected one of schedule.warmup_steps and schedule.warmup_fraction, got "
                        "both; remove one"});
  if (sound({"schedule.warmup_steps", "job.steps"}) && config.job.steps > 0 &&
      config.schedule.warmup_steps > config.job.steps)
    problems.push_back(
        {"schedule.warmup_steps", fmt::format("schedule.warmup_steps must be at most job.steps, got {} and {}",
                                              config.schedule.warmup_steps, config.job.steps)});
  if (sound({"schedule.name", "schedule.warmup_fraction", "schedule.decay_fraction"}) &&
      config.schedule.name == "wsd" && config.schedule.warmup_fraction + config.schedule.decay_fraction > 1)
    problems.push_back(
        {"schedule.decay_fraction",
         fmt::format("schedule.warmup_fraction and schedule.decay_fraction must together be at most 1, got "
                     "{} and {}",
                     config.schedule.warmup_fraction, config.schedule.decay_fraction)});
  if (sound({"reduction.mode", "balance.policy"}) && config.reduction.mode == "fixed" &&
      config.balance.policy != "none" && job.origins.find("balance.policy")->second != "default")
    problems.push_back(
        {"balance.policy",
         fmt::format("balance.policy must be none where reduction.mode is fixed, got {}: a plan depends on the number "
                     "of ranks, and fixed promises the same bits with any; remove one of the two",
                     config.balance.policy)});
  if (const std::string& objective = config.balance.objective;
      sound({"balance.objective"}) && (objective == "lockstep" || objective == "two-stage"))
    problems.push_back(
        {"balance.objective",
         fmt::format("balance.objective must be auto, sum or makespan, got {}: it is for ranks that wait for one "
                     "another {}, and those of this runtime wait once a step, at the reduction of gradients; remove it",
                     objective, objective == "lockstep" ? "at every micro-batch" : "between encoder and decoder")});
  if (sound({"reduction.mode", "reduction.transport"}) && config.reduction.mode == "fixed" &&
      config.reduction.transport == "device")
    problems.push_back(
        {"reduction.transport",
         "reduction.transport must be host or auto where reduction.mode is fixed, got device: the sums of "
         "cards have no fixed order; change one of the two"});
  check_lora(problems, job, sound);
  check_without_effect(problems, config, sound);
  if (sound({"ema.decay", "ema.export", "ema.warmup"}) && config.ema.decay == 0) {
    if (config.ema.export_as == "instead")
      problems.push_back({"ema.export",
                          "ema.export: instead of the weights goes their average, expected ema.decay above 0, got 0; "
                          "set it, or remove export"});
    if (config.ema.warmup)
      problems.push_back(
          {"ema.warmup",
           "ema.warmup: it is the average's decay that rises, expected ema.decay above 0, got 0; set it, "
           "or remove warmup"});
  }
  for (size_t i = 0; i < config.optimizer.groups.size(); ++i) {
    if (!is_sound_table(job, "optimizer.groups", i)) continue;
    const OptimizerGroup& group = config.optimizer.groups[i];
    const std::string place = fmt::format("optimizer.groups: table {}: ", i + 1);
    if (group.parameters.empty())
      problems.push_back({"optimizer.groups", place + "parameters is required: patterns of what it is about"});
    if (!group.learning_rate && !group.weight_decay)
      problems.push_back({"optimizer.groups", place + "says neither learning_rate nor weight_decay; remove it"});
    if (group.learning_rate && sound({"optimizer.learning_rate"}) && config.optimizer.learning_rate == 0)
      problems.push_back({"optimizer.groups", place + "learning_rate needs optimizer.learning_rate above 0, whose "
                                                      "schedule it follows; freeze what shall not move"});
  }
  return problems;
}

void fill_derived_defaults(ResolvedJob& job, const fs::path& working_directory) {
  JobConfig& config = job.config;
  if (config.job.name.empty()) {
    config.job.name = config.file.stem().string();
    for (char& c : config.job.name)  // which no job.name may hold
      if (static_cast<unsigned char>(c) < 0x20) c = '_';
  }
  if (config.job.output.empty()) config.job.output = working_directory / "runs" / config.job.name;
  if (config.model.tokenizer.empty()) config.model.tokenizer = config.model.path;
  if (const auto origin = job.origins.find("balance.policy");
      config.reduction.mode == "fixed" && origin->second == "default") {
    config.balance.policy = "none";
    origin->second = "reduction.mode";
  }
}

}  // namespace lf
