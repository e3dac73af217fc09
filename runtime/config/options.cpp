#include "config/options.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/config.h"

namespace lf {
namespace {

using Path = std::filesystem::path;
using Texts = std::vector<std::string>;
using Paths = std::vector<Path>;
using Table = std::map<std::string, std::string>;  // values are JSON
using LoraGroups = std::vector<LoraGroup>;
using OptimizerGroups = std::vector<OptimizerGroup>;

template <typename T>
constexpr bool kIsTables = std::is_same_v<T, LoraGroups> || std::is_same_v<T, OptimizerGroups>;

// The members of a table of a list: visit(name, field) for each.
template <typename Group, typename Visit>
void each_member(Group& group, Visit visit) {
  if constexpr (std::is_same_v<std::remove_const_t<Group>, LoraGroup>) {
    visit("targets", group.targets);
    visit("rank", group.rank);
    visit("alpha", group.alpha);
    visit("dropout", group.dropout);
  } else {
    visit("parameters", group.parameters);
    visit("learning_rate", group.learning_rate);
    visit("weight_decay", group.weight_decay);
  }
}

template <typename T>
void put(Json& table, const char* name, const std::optional<T>& value) {
  if (value) table[name] = *value;
}
inline void put(Json& table, const char* name, const Texts& value) { table[name] = value; }
template <typename T>
void take(const Json& table, const char* name, std::optional<T>& value) {
  if (table.contains(name)) value = table[name].get<T>();
}
inline void take(const Json& table, const char* name, Texts& value) {
  if (table.contains(name)) value = table[name].get<Texts>();
}

template <typename T>
constexpr OptionType type_of() {
  if constexpr (std::is_same_v<T, bool>)
    return OptionType::kBoolean;
  else if constexpr (std::is_integral_v<T>)
    return OptionType::kInteger;
  else if constexpr (std::is_floating_point_v<T>)
    return OptionType::kNumber;
  else if constexpr (std::is_same_v<T, std::string>)
    return OptionType::kText;
  else if constexpr (std::is_same_v<T, Path>)
    return OptionType::kPath;
  else if constexpr (std::is_same_v<T, Texts>)
    return OptionType::kTexts;
  else if constexpr (std::is_same_v<T, Paths>)
    return OptionType::kPaths;
  else if constexpr (kIsTables<T>)
    return OptionType::kTables;
  else {
    static_assert(std::is_same_v<T, Table>, "a new type of option needs its own line here");
    return OptionType::kTable;
  }
}

template <typename T>
Json to_json(const T& value) {
  if constexpr (std::is_same_v<T, Path>) {
    return value.string();
  } else if constexpr (std::is_same_v<T, Paths>) {
    Json list = Json::array();
    for (const Path& path : value) list.push_back(path.string());
    return list;
  } else if constexpr (std::is_same_v<T, Table>) {
    Json table = Json::object();
    for (const auto& [key, text] : value) table[key] = Json::parse(text);
    return table;
  } else if constexpr (kIsTables<T>) {
    Json list = Json::array();
    for (const auto& group : value) {
      Json table = Json::object();
      each_member(group, [&table](const char* name, const auto& field) { put(table, name, field); });
      list.push_back(std::move(table));
    }
    return list;
  } else {
    return value;
  }
}

template <typename T>
T from_json(const Json& value) {
  if constexpr (std::is_same_v<T, Path>) {
    return value.get<std::string>();
  } else if constexpr (std::is_same_v<T, Paths>) {
    const Texts texts = value.get<Texts>();
    return Paths(texts.begin(), texts.end());
  } else if constexpr (std::is_same_v<T, Table>) {
    Table table;
    for (const auto& [key, item] : value.items()) table[key] = item.dump();
    return table;
  } else if constexpr (kIsTables<T>) {
    T list;
    for (const Json& table : value)
      each_member(list.emplace_back(), [&table](const char* name, auto& field) { take(table, name, field); });
    return list;
  } else {
    return value.get<T>();
  }
}

// The field that the members lead to, one after the other.
template <typename Section, typename Class, typename Member>
auto& at(Section& section, Member Class::*member) {
  return section.*member;
}
template <typename Section, typename Class, typename Member, typename... More>
auto& at(Section& section, Member Class::*member, More... more) {
  return at(section.*member, more...);
}

struct Words {  // what people read about an option
  std::string_view name, unit, sentence, fallback = {};
};

// The last of `members` is the field; those before it lead there from JobConfig.
template <typename... Members>
Option option(Words words, Rule rule, Members... members) {
  using Value = std::remove_cvref_t<decltype(at(std::declval<JobConfig&>(), members...))>;
  constexpr OptionType type = type_of<Value>();
  if constexpr (type == OptionType::kInteger && sizeof(Value) < sizeof(int64_t))
    rule.most = std::min(rule.most, static_cast<double>(std::numeric_limits<Value>::max()));
  return Option{
      words.name,
      type,
      words.unit,
      words.sentence,
      words.fallback,
      std::move(rule),
      [members...](const JobConfig& config) { return to_json(at(config, members...)); },
      [members...](JobConfig& config, const Json& value) { at(config, members...) = from_json<Value>(value); }};
}

// What a table of a list may say. `name` is dotted, like an option's.
Option field(OptionType type, Words words, Rule rule = {}) {
  return Option{words.name, type, words.unit, words.sentence, words.fallback, std::move(rule), {}, {}};
}
Option with_fields(Option option, std::vector<Option> fields) {
  option.fields = std::move(fields);
  return option;
}

Rule within(double least, double most) { return {.least = least, .most = most}; }
Rule at_least(double least) { return {.least = least}; }
Rule above(double least) { return {.least = least, .above_least = true}; }
Rule share() { return within(0, 1); }
Rule share_below_one() { return {.least = 0, .most = 1, .below_most = true}; }
Rule one_of(std::vector<std::string_view> words) { return {.words = std::move(words)}; }
Rule plugin_id() { return {.pattern = Rule::Pattern::kPluginId}; }

std::vector<Option> all_options() {
  using J = JobConfig;
  constexpr double kMost = 1e12;
  return {
      option({"job.name", "", "What the run is called; the run directory's name unless output says otherwise.",
              "the job file's name without its extension"},
             {.pattern = Rule::Pattern::kFolderName}, &J::job, &JobSection::name),
      option(
          {"job.output", "", "The run directory: log, metrics, checkpoints and the finished model.", "runs/<job.name>"},
          {}, &J::job, &JobSection::output),
      option({"job.seed", "",
              "Decides the data order, random initialisation and dropout: the same seed gives the same bits."},
             at_least(0), &J::job, &JobSection::seed),
      option({"job.steps", "steps", "How long to train, in optimizer steps. Either this or epochs is required."},
             within(0, kMost), &J::job, &JobSection::steps),
      option({"job.epochs", "epochs", "How long to train, in passes over the data set, fractions allowed."},
             within(0, 1e9), &J::job, &JobSection::epochs),

      option({"launch.processes", "workers", "How many workers lfrun starts on this host, one per device."},
             within(1, 4096), &J::launch, &LaunchSection::processes),
      option({"launch.threads", "threads",
              "Threads of one worker for maths; 0: OMP_NUM_THREADS, else the cores divided among this host's workers; "
              "with reduction.mode = \"fixed\" 1, since sums inside a worker follow it."},
             within(0, 4096), &J::launch, &LaunchSection::threads),
      option({"device.name", "",
              "The device plugin: what it names is used, or the job ends with code 69. auto: the one kind of device "
              "other than "
              "cpu that is there, else cpu. LF_DEVICE in the environment wins over it."},
             plugin_id(), &J::device, &DeviceSection::name),
      option({"device.op_fallback", "",
              "An operator that the device does not have, or a model that computes in the host's memory alone, is an "
              "error, or runs on the CPU and is counted and listed at the end."},
             one_of({"error", "warn"}), &J::device, &DeviceSection::op_fallback),
      option(
          {"device.call_timeout_seconds", "seconds",
           "A call of the device's plugin, or a model's call that computes there, which has not returned for so long "
           "counts as hanging: the job ends with code 69, and says which call of which rank. Where it waits for "
           "peers, reduction.timeout_seconds comes on top."},
          within(1, 1e6), &J::device, &DeviceSection::call_timeout_seconds),

      option({"model.family", "", "The model plugin. Required."}, plugin_id(), &J::model, &ModelSection::family),
      option({"model.path", "", "A Hugging Face directory with the config, weights and tokenizer to start from."}, {},
             &J::model, &ModelSection::path),
      option({"model.config", "",
              "Instead of path: a config.json alone; the weights are initialised at random. Beside path, with "
              "new_parameters: it stands for the directory's own."},
             {}, &J::model, &ModelSection::config),
      option({"model.new_parameters", "",
              "Glob patterns over component, parameter and tensor names that the weights in path may lack: these are "
              "initialised at random, by the seed. One that matches nothing, or nothing that is absent, is an error."},
             {}, &J::model, &ModelSection::new_parameters),
      option({"model.tokenizer", "", "The folder of tokenizer.json.", "model.path"}, {}, &J::model,
             &ModelSection::tokenizer),
      option({"model.freeze", "",
              "Glob patterns over component and parameter names that are not trained; one that matches nothing is an "
              "error."},
             {}, &J::model, &ModelSection::freeze),
      option({"model.options", "",
              "The family's own settings; its plugin documents and checks them. A family may take the whole model from "
              "here, without path and config."},
             {}, &J::model, &ModelSection::options),

      option({"lora.rank", "", "The rank of adapters: A is [rank, in], B is [out, rank]."}, within(1, 65536), &J::lora,
             &LoraSection::rank),
      option({"lora.alpha", "", "Adapters are scaled by alpha / rank."}, {.least = 0, .above_least = true}, &J::lora,
             &LoraSection::alpha),
      option({"lora.dropout", "",
              "The share of an adapter's input that is dropped; drawn from the seed, the step and the samples of the "
              "micro-batch."},
             share_below_one(), &J::lora, &LoraSection::dropout),
      option(
          {"lora.targets", "",
           "Glob patterns over component names and the names of linear maps, tables, heads and experts (as files or "
           "transformers have them, with or without .weight): these get adapters, and nothing else but also_train is "
           "trained. Tables, heads and experts are meant by their own names alone. One that matches no such map is an "
           "error."},
          {}, &J::lora, &LoraSection::targets),
      with_fields(
          option({"lora.groups", "",
                  "Further targets with numbers of their own, where theirs differ: [[lora.groups]]. A map "
                  "has one adapter at most."},
                 {}, &J::lora, &LoraSection::groups),
          {field(OptionType::kTexts, {"lora.groups.targets", "", "As lora.targets. Required."}),
           field(OptionType::kInteger, {"lora.groups.rank", "", "As lora.rank.", "lora.rank"}, within(1, 65536)),
           field(OptionType::kNumber, {"lora.groups.alpha", "", "As lora.alpha.", "lora.alpha"},
                 {.least = 0, .above_least = true}),
           field(OptionType::kNumber, {"lora.groups.dropout", "", "As lora.dropout.", "lora.dropout"},
                 share_below_one())}),
      option({"lora.also_train", "",
              "Glob patterns over component and parameter names that are trained as they are, beside the adapters."},
             {}, &J::lora, &LoraSection::also_train),
      option({"lora.path", "",
              "Instead of targets and groups: a directory of adapters, as training or peft wrote it, to start from; "
              "ranks and scales are its own."},
             {}, &J::lora, &LoraSection::path),

      option({"data.path", "",
              "JSONL files of samples, folders of them, LeRobot directories: one, or a list. Or streams: pipes, tar "
              "archives. "
              "Required."},
             {}, &J::data, &DataSection::path),
      option({"data.format", "", "How samples are written; auto looks at the first one."},
             one_of({"auto", "sharegpt", "messages", "text", "lerobot"}), &J::data, &DataSection::format),
      option({"data.media_root", "", "Where relative image and video paths start.", "the folder of the JSONL file"}, {},
             &J::data, &DataSection::media_root),
      option({"data.chat_template", "", "How a conversation becomes text; auto is the family's own way."}, {}, &J::data,
             &DataSection::chat_template),
      option(
          {"data.max_tokens", "tokens", "The size of a micro-batch: its samples together have at most so many tokens."},
          within(1, 1e9), &J::data, &DataSection::max_tokens),
      option({"data.micro_batches", "micro-batches", "Micro-batches per step and rank; their gradients add up."},
             within(1, 1e6), &J::data, &DataSection::micro_batches),
      option({"data.too_long", "", "What becomes of a sample of more than max_tokens: left out or cut, and counted."},
             one_of({"skip", "cut"}), &J::data, &DataSection::too_long),
      option({"data.packing", "", "Put several samples into one micro-batch, without padding."}, {}, &J::data,
             &DataSection::packing),
      option({"data.shuffle", "", "Take the samples in a random order, another one each epoch."}, {}, &J::data,
             &DataSection::shuffle),
      option({"data.train_on", "", "Which tokens the loss counts: the assistant's turns, or all."},
             one_of({"assistant", "all"}), &J::data, &DataSection::train_on),
      option({"data.image_min_pixels", "pixels", "Smaller images are enlarged to it; 0: the family's value."},
             within(0, kMost), &J::data, &DataSection::image_min_pixels),
      option({"data.image_max_pixels", "pixels", "Larger images are shrunk to it; 0: the family's value."},
             within(0, kMost), &J::data, &DataSection::image_max_pixels),
      option({"data.video_min_pixels", "pixels per frame", "Smaller videos are enlarged to it; 0: the family's value."},
             within(0, kMost), &J::data, &DataSection::video_min_pixels),
      option({"data.video_max_pixels", "pixels per frame", "Larger videos are shrunk to it; 0: the family's value."},
             within(0, kMost), &J::data, &DataSection::video_max_pixels),
      option({"data.video_fps", "frames/s", "How densely frames are taken from a video; 0: the family's value."},
             within(0, 1000), &J::data, &DataSection::video_fps),
      option(
          {"data.video_max_frames", "frames", "At most so many frames are taken from a video; 0: the family's value."},
          within(0, 1e6), &J::data, &DataSection::video_max_frames),
      option({"data.max_decoded_pixels", "pixels",
              "A file whose header declares more is bad, before any memory is taken for it."},
             within(1, kMost), &J::data, &DataSection::max_decoded_pixels),
      option({"data.max_bad", "",
              "The share of samples that may be bad (and are skipped and listed) before the run stops."},
             share(), &J::data, &DataSection::max_bad),
      option({"data.workers", "threads", "Loader threads per rank."}, within(1, 256), &J::data, &DataSection::workers),
      option({"data.prefetch_steps", "steps", "How many steps the loader may be ahead."}, within(1, 1024), &J::data,
             &DataSection::prefetch_steps),

      option({"balance.policy", "",
              "The balancer plugin that deals the samples of a step to ranks and micro-batches; none where "
              "reduction.mode is fixed."},
             plugin_id(), &J::balance, &BalanceSection::policy),
      option(
          {"balance.costs", "",
           "What plans follow: the costs that the model states, with which the same job gives the same plans and the "
           "same bits; or costs learned from the times that steps take, for ranks or machines of unequal speed, "
           "where plans, and with them the order of sums, differ from run to run."},
          one_of({"stated", "learned"}), &J::balance, &BalanceSection::costs),
      option(
          {"balance.unit", "",
           "What the policy deals: single samples, or micro-batches as they were packed, whole; streams have samples."},
          one_of({"sample", "pack"}), &J::balance, &BalanceSection::unit),
      option({"balance.objective", "",
              "What a plan makes small: auto, by where ranks wait. Today they wait once a step, at the reduction, for "
              "which sum and makespan are the same; lockstep and two-stage are for layouts that are not there yet."},
             one_of({"auto", "sum", "makespan", "lockstep", "two-stage"}), &J::balance, &BalanceSection::objective),
      option({"balance.options", "", "The policy's own settings; its plugin documents and checks them."}, {},
             &J::balance, &BalanceSection::options),

      option({"reduction.mode", "",
              "How gradients are summed over ranks: fast, or fixed for the same bits with any number of ranks."},
             one_of({"fast", "fixed"}), &J::reduction, &ReductionSection::mode),
      option(
          {"reduction.transport", "",
           "What sums gradients that are made on cards: the collectives of the device's plugin (device), or the host. "
           "auto: the device where it can, and the log says why where it cannot; device: else the job ends with code "
           "69."},
          one_of({"auto", "host", "device"}), &J::reduction, &ReductionSection::transport),
      option({"reduction.timeout_seconds", "seconds",
              "How late a rank may be in what the ranks do together, sums of gradients on the host and on cards among "
              "it; then the job ends with code 69."},
             within(1, 1e6), &J::reduction, &ReductionSection::timeout_seconds),
      option({"reduction.bucket_bytes", "bytes", "Gradients are sent in pieces of about this size."},
             within(4096, 1099511627776.0), &J::reduction, &ReductionSection::bucket_bytes),

      option({"memory.recompute", "",
              "What is computed again in backward instead of kept: nothing, the inner part of each layer, or whole "
              "layers."},
             one_of({"none", "inner", "whole"}), &J::memory, &MemorySection::recompute),

      option({"optimizer.name", "", "The optimizer."}, one_of({"adamw"}), &J::optimizer, &OptimizerSection::name),
      option({"optimizer.memory", "",
              "Where master weights and moments are, and the update runs: in the memory of the device, or the host's. "
              "auto: the device where there is room and a trial update by its own operators gives the host's numbers; "
              "the choice and its reason are in the log and env.json. device: else the job ends with code 69."},
             one_of({"auto", "device", "host"}), &J::optimizer, &OptimizerSection::memory),
      option({"optimizer.learning_rate", "", "The peak learning rate, after warm-up."}, within(0, 1000), &J::optimizer,
             &OptimizerSection::learning_rate),
      option({"optimizer.beta1", "", "Decay of the gradient's running mean."}, share_below_one(), &J::optimizer,
             &OptimizerSection::beta1),
      option({"optimizer.beta2", "", "Decay of the squared gradient's running mean."}, share_below_one(), &J::optimizer,
             &OptimizerSection::beta2),
      option({"optimizer.epsilon", "", "Added to the denominator of the update."}, above(0), &J::optimizer,
             &OptimizerSection::epsilon),
      option({"optimizer.weight_decay", "", "Decoupled weight decay, times the learning rate."}, within(0, 1000),
             &J::optimizer, &OptimizerSection::weight_decay),
      option({"optimizer.decay_all", "", "Decay norms and biases too."}, {}, &J::optimizer,
             &OptimizerSection::decay_all),
      option({"optimizer.clip_norm", "", "The gradient is scaled down to this norm; 0: never."}, at_least(0),
             &J::optimizer, &OptimizerSection::clip_norm),
      option({"optimizer.on_nonfinite", "", "What to do with a step whose loss or gradient is not finite."},
             one_of({"skip", "stop"}), &J::optimizer, &OptimizerSection::on_nonfinite),
      option({"optimizer.max_skipped", "steps", "So many skipped steps in a row stop the run."}, within(1, 1e6),
             &J::optimizer, &OptimizerSection::max_skipped),
      with_fields(
          option({"optimizer.groups", "",
                  "Parameters with numbers of their own: [[optimizer.groups]]. One that two groups match is an error, "
                  "as is a pattern that matches nothing that is trained."},
                 {}, &J::optimizer, &OptimizerSection::groups),
          {field(OptionType::kTexts, {"optimizer.groups.parameters", "",
                                      "Glob patterns over component and parameter names, as model.freeze. Required."}),
           field(OptionType::kNumber,
                 {"optimizer.groups.learning_rate", "", "Their peak learning rate; the schedule is the same.",
                  "optimizer.learning_rate"},
                 within(0, 1000)),
           field(OptionType::kNumber,
                 {"optimizer.groups.weight_decay", "",
                  "Their weight decay; norms and biases have none but by decay_all.", "optimizer.weight_decay"},
                 within(0, 1000))}),

      option({"ema.decay", "",
              "Keep an exponential moving average of the weights, of which each update keeps this share; 0: none."},
             share_below_one(), &J::ema, &EmaSection::decay),
      option({"ema.warmup", "",
              "The decay rises with the updates n, from 0 by (1 + n) / (10 + n), so that short runs forget where they "
              "began."},
             {}, &J::ema, &EmaSection::warmup),
      option({"ema.export", "",
              "The average is written to model_ema/, beside model/, or to model/ instead of the weights."},
             one_of({"beside", "instead"}), &J::ema, &EmaSection::export_as),

      option({"schedule.name", "", "The learning rate's course after warm-up; wsd is warm-up, stable, decay."},
             one_of({"constant", "linear", "cosine", "wsd"}), &J::schedule, &ScheduleSection::name),
      option({"schedule.warmup_steps", "steps", "The learning rate rises linearly over so many first steps."},
             within(0, kMost), &J::schedule, &ScheduleSection::warmup_steps),
      option({"schedule.warmup_fraction", "", "Instead of warmup_steps: the share of all steps that warm up."},
             share_below_one(), &J::schedule, &ScheduleSection::warmup_fraction),
      option({"schedule.final_fraction", "", "What is left of the learning rate at the end."}, share(), &J::schedule,
             &ScheduleSection::final_fraction),
      option({"schedule.decay_fraction", "", "With wsd: the share of all steps that decays."}, share(), &J::schedule,
             &ScheduleSection::decay_fraction),

      option({"precision.compute", "", "Forward and backward run in this type; master weights and sums are fp32."},
             one_of({"fp32", "bf16"}), &J::precision, &PrecisionSection::compute),

      option({"checkpoint.every_steps", "steps", "Save so often; 0: not by steps. There is always one at the end."},
             within(0, kMost), &J::checkpoint, &CheckpointSection::every_steps),
      option({"checkpoint.every_minutes", "minutes", "Save so often; 0: not by time."}, within(0, 1e6), &J::checkpoint,
             &CheckpointSection::every_minutes),
      option({"checkpoint.keep", "checkpoints", "How many of the newest are kept."}, within(1, 1e6), &J::checkpoint,
             &CheckpointSection::keep),
      option({"checkpoint.resume", "", "Go on from the newest complete checkpoint in the run directory."}, {},
             &J::checkpoint, &CheckpointSection::resume),
      option({"checkpoint.export_model", "", "Write model/, a Hugging Face directory, at the end."}, {}, &J::checkpoint,
             &CheckpointSection::export_model),
      option({"checkpoint.export_dtype", "",
              "The type of the exported weights; source is that of the weights started from."},
             one_of({"source", "fp32", "bf16"}), &J::checkpoint, &CheckpointSection::export_dtype),
      option({"checkpoint.on_full", "", "What to do where there is no space left for a checkpoint."},
             one_of({"warn", "stop"}), &J::checkpoint, &CheckpointSection::on_full),

      option({"metrics.seconds", "s", "Time between progress lines where there is no terminal."},
             {.least = 0, .most = 86400, .above_least = true}, &J::metrics, &MetricsSection::seconds),
      option({"metrics.tensorboard", "", "Also write TensorBoard events, to tb/ in the run directory."}, {},
             &J::metrics, &MetricsSection::tensorboard),
  };
}

}  // namespace

const std::vector<Option>& options() {
  static const std::vector<Option> table = all_options();
  return table;
}

const std::vector<std::string_view>& option_tables() {
  static const std::vector<std::string_view> tables = [] {
    std::vector<std::string_view> found;
    for (const Option& option : options())
      for (std::string_view name : {option.table(), option.type == OptionType::kTable ? option.name : option.table()})
        if (std::find(found.begin(), found.end(), name) == found.end()) found.push_back(name);
    return found;
  }();
  return tables;
}

const Option* find_option(std::string_view name) {
  const auto found = std::find_if(options().begin(), options().end(), [&](const Option& o) { return o.name == name; });
  return found == options().end() ? nullptr : &*found;
}

std::string_view type_name(OptionType type) {
  switch (type) {
    case OptionType::kInteger:
      return "integer";
    case OptionType::kNumber:
      return "number";
    case OptionType::kBoolean:
      return "true or false";
    case OptionType::kText:
      return "text";
    case OptionType::kPath:
      return "path";
    case OptionType::kTexts:
      return "list of texts";
    case OptionType::kPaths:
      return "list of paths";
    case OptionType::kTable:
      return "table";
    case OptionType::kTables:
      return "list of tables";
  }
  return "";
}

std::string rule_text(const Option& option) {
  const Rule& rule = option.rule;
  if (!rule.words.empty()) return fmt::format("one of {}", fmt::join(rule.words, ", "));
  if (rule.pattern == Rule::Pattern::kPluginId) return "an id of 2 to 64 characters a-z 0-9 . _ -";
  if (rule.pattern == Rule::Pattern::kFolderName) return "a folder name of at most 100 bytes";
  const bool has_least = std::isfinite(rule.least);
  const bool has_most = std::isfinite(rule.most);
  if (has_least && has_most)
    return fmt::format("in {}{:.15g}, {:.15g}{}", rule.above_least ? '(' : '[', rule.least, rule.most,
                       rule.below_most ? ')' : ']');
  if (has_least) return fmt::format("{} {:.15g}", rule.above_least ? "above" : "at least", rule.least);
  return "";
}

std::vector<std::string> option_names() {
  std::vector<std::string> names;
  for (const Option& option : options()) names.emplace_back(option.name);
  return names;
}

}  // namespace lf
