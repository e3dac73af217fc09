#include "check/check.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <tuple>

#include "check/findings.h"
#include "check/memory_estimate.h"
#include "checkpoint/checkpoint.h"
#include "core/amount.h"
#include "core/error.h"
#include "load/estimate.h"
#include "load/survey.h"
#include "load/verdict.h"
#include "optimizer/parameter_groups.h"
#include "plugins/device_choice.h"
#include "plugins/model_on_device.h"
#include "train/gradient_transport.h"
#include "train/optimizer_memory.h"
#include "train/resident_memory.h"
#include "train/saving.h"
#include "train/session.h"
#include "train/weights.h"

namespace lf {
namespace {

constexpr uint64_t kSurveySamples = 64;           // looked at, and packed to see what a micro-batch costs
constexpr uint64_t kEstimateSamples = 512;        // whose features count the steps of epochs
constexpr int64_t kMostRounds = 4096;             // of the samples looked at, to fill a micro-batch
constexpr uint64_t kHashedBytes = 1'000'000'000;  // of checkpoints: half a second

// The first samples of archives; of a pipe none: what is read of it here would be missing in the run.
class FirstSamples {
 public:
  FirstSamples(const StreamSet& streams, HeldMedia& held, uint64_t most) {
    for (size_t s = 0; s < streams.size(); ++s) {
      if (!std::filesystem::is_regular_file(streams.path(s))) continue;
      looked_into_ = true;
      const auto feed = streams.open(s, [] { return false; });
      while (samples_.size() < most) {
        auto fed = feed->next();
        if (!fed) break;
        if (!fed->bad.empty()) continue;  // training names, counts and passes over it
        samples_.push_back({.index = 0, .json = std::move(fed->json), .place = std::move(fed->place)});
        media_.emplace_back(held, std::move(fed->media));
      }
    }
  }
  const std::vector<Sample>& all() const { return samples_; }
  bool looked_into_any() const { return looked_into_; }  // false: all are pipes

 private:
  bool looked_into_ = false;
  std::vector<Sample> samples_;
  std::vector<HeldMedia::Lease> media_;
};

// A device with memory of its own.
struct Card {
  std::string id;
  uint64_t memory_bytes = 0;  // of one; 0: it does not say
  bool has_collectives = false;
};

bool has_collectives(const Candidate& plugin) {
  const std::vector<std::string>& interfaces = plugin.manifest->interfaces;
  return std::find(interfaces.begin(), interfaces.end(), LF_COLLECTIVE_INTERFACE) != interfaces.end();
}

class Check {
 public:
  Check(const ResolvedJob& job, int processes, std::string device_reason, Problems& problems)
      : job_(job),
        config_(job_.config),
        processes_(processes),
        device_reason_(std::move(device_reason)),
        problems_(problems) {}

  void run() {
    attempt([&] {
      find_plugins();
      session_.emplace(config_, session_options());
    });
    attempt([&] { opening_.refuse_if_any(); });
    if (has_model() && device_)
      attempt([&] {
        const DeviceOfModel on{.id = device_->id, .host = device_->host, .torch_mode = device_->torch_mode};
        place_ = place_of_model(*session_->plugins.find(PluginKind::kModel, session_->model->plugin_id()).manifest,
                                session_->model->api()->abilities, on, config_.device.op_fallback == "warn");
      });
    if (has_model()) attempt([&] { freezing_ = freeze(description(), config_.model.freeze, config_.lora.also_train); });
    if (freezing_) attempt([&] { groups_ = parameter_groups(description(), *freezing_, config_.optimizer); });
    if (has_model()) attempt([&] { begun_anew_ = WeightSource(config_, description()).new_parameters(); });
    if (sound({"data.path", "data.format", "data.media_root"})) attempt([&] { open_data(); });
    if (freezing_) print_model();
    if (dataset_ || streams_) print_data();
    const bool can_encode = has_model() && sound({"model.tokenizer"});
    if (can_encode && dataset_) look_at_data();
    if (can_encode && streams_) attempt([&] { look_at_streams(); });
    if (has_model() && sound({"job.steps", "job.epochs"}) && (streams_ || (dataset_ && !seen_.usable.empty())))
      print_steps();
    if (freezing_ && !seen_.usable.empty()) print_memory();
    if (sound({"job.output"})) attempt([&] { require_writable(config_.job.output); });
    if (sound({"job.output"})) attempt([&] { print_resume(); });
    if (freezing_ && sound({"job.output"})) attempt([&] { print_checkpoints(); });
  }

 private:
  bool sound(std::initializer_list<std::string_view> options) const {
    for (const std::string_view option : options)
      if (job_.broken.contains(option)) return false;
    return true;
  }

  // What goes wrong is one more problem, with the place of the option that it names.
  template <typename Body>
  void attempt(Body&& body) {
    try {
      body();
    } catch (const Error& error) {
      problems_.add(error.exit(), with_origins(job_, error.what()));
    }
  }

  SessionOptions session_options() {
    SessionOptions options;
    options.open_device = false;
    options.problems = &opening_;
    options.skip = job_.broken;
    return options;
  }

  void find_plugins() {
    const PluginSet plugins(config_.plugins.dirs, plugin_host(config_.plugins));
    std::vector<std::filesystem::path> together;
    if (sound({"device.name"})) choose_device_of(plugins);
    if (sound({"device.name"})) together.push_back(plugins.find(PluginKind::kDevice, config_.device.name).path);
    for (const auto& [option, kind, id] :
         {std::tuple("model.family", PluginKind::kModel, config_.model.family),
          std::tuple("balance.policy", PluginKind::kBalancer, config_.balance.policy)}) {
      if (job_.broken.contains(option) || id.empty()) continue;
      try {
        together.push_back(plugins.find(kind, id).path);
      } catch (const Error& error) {
        problems_.add(error.exit(), with_origin(job_, option, error.what()));
        job_.broken.emplace(option);
      }
    }
    try {
      plugins.require_one_of_each_library(together);
    } catch (const Error& error) {
      problems_.add(error.exit(), error.what());
      for (const char* option : {"model.family", "balance.policy"}) job_.broken.emplace(option);  // not to be opened
    }
  }

  // As a run from here would; it is not opened in this process.
  void choose_device_of(const PluginSet& plugins) {
    try {
      const DeviceChoice choice = choose_device(plugins, config_.device.name, processes_,
                                                device_named_by(job_.origins.at("device.name")), DeviceLook::kOpenOne);
      if (device_reason_.empty()) device_reason_ = choice.reason;
      device_ = choice;
      job_.config.device.name = choice.id;
      fmt::print("device        {}: {}\n", choice.id, device_reason_);
      if (!choice.host) {
        card_ = Card{choice.id, choice.memory_bytes, has_collectives(plugins.find(PluginKind::kDevice, choice.id))};
        return;
      }
      if (sound({"reduction.transport"})) attempt([&] { require_card_to_sum_on(config_, choice.id); });
      if (sound({"optimizer.memory"})) attempt([&] { require_memory_beside_the_hosts(config_, choice.id); });
    } catch (const Error& error) {
      problems_.add(error.exit(), with_origin(job_, "device.name", error.what()));
      job_.broken.emplace("device.name");
    }
  }

  bool has_model() const { return session_ && session_->model; }
  const Description& description() const { return session_->model->description(); }

  std::vector<std::pair<size_t, int64_t>> trained_parameters() const {
    std::vector<std::pair<size_t, int64_t>> trained;
    for (size_t p = 0; p < description().parameters.size(); ++p)
      if (description().parameters[p].tied_to < 0 && !freezing_->frozen[p])
        trained.emplace_back(p, element_count(description().parameters[p]));
    return trained;
  }

  void print_model() const {
    int64_t trained = 0;
    for (const auto& [p, elements] : trained_parameters()) trained += elements;
    fmt::print("model         {}: {} parameters, {} trained, computed in {}\n", session_->model->plugin_id(),
               count_text(description().parameter_count()), count_text(trained), config_.precision.compute);
    if (place_ == ModelPlace::kHost)
      fmt::print(
          "  warning: it computes in the host's memory, as device.op_fallback allows: values and gradients go "
          "there and back for every micro-batch\n");
    for (const Component& component : description().components) {
      int64_t own = 0;
      for (size_t p = component.first_parameter; p < component.first_parameter + component.n_parameters; ++p)
        if (description().parameters[p].tied_to < 0) own += element_count(description().parameters[p]);
      int64_t adapters = 0, halves = 0;  // of A and B, those of tied weights once
      for (const size_t p : component.adapters) {
        if (description().parameters[p].tied_to >= 0) continue;
        adapters += element_count(description().parameters[p]);
        ++halves;
      }
      fmt::print("  {:<12}{} in {}{}\n", component.name, count_text(own), counted(component.n_units, "unit"),
                 freezing_->all_frozen(component) ? ", frozen"
                 : adapters > 0
                     ? fmt::format(", {} with {} parameters", counted(halves / 2, "adapter"), count_text(adapters))
                     : "");
    }
    if (!begun_anew_.empty()) fmt::print("  new         {}\n", begun_anew_);
    for (size_t g = 0; g < config_.optimizer.groups.size() && !groups_.empty(); ++g) print_group(g);
  }

  void print_group(size_t g) const {
    const OptimizerGroup& group = config_.optimizer.groups[g];
    size_t parameters = 0;
    int64_t elements = 0, others = 0;
    for (const auto& [p, n] : trained_parameters()) {
      const bool in = groups_[p] == static_cast<int>(g);
      parameters += in ? 1 : 0;
      elements += in ? n : 0;
      others += groups_[p] < 0 ? n : 0;
    }
    fmt::print("  group {:<6}{} in {}: learning rate {}, weight decay {}\n", g + 1, count_text(elements),
               counted(parameters, "parameter"), group.learning_rate.value_or(config_.optimizer.learning_rate),
               group.weight_decay.value_or(config_.optimizer.weight_decay));
    if (g + 1 == config_.optimizer.groups.size())
      fmt::print("  no group    {}: learning rate {}, weight decay {}\n", count_text(others),
                 config_.optimizer.learning_rate, config_.optimizer.weight_decay);
  }

  void print_data() const {
    for (size_t s = 0; streams_ && s < streams_->size(); ++s)
      fmt::print("data          {}: a stream of {}, read once in its own order\n", streams_->path(s).string(),
                 streams_->kind(s));
    for (const Dataset::File& file : dataset_ ? dataset_->files() : std::vector<Dataset::File>())
      fmt::print("data          {}: {}, {}\n", file.path.string(), counted(file.samples, "sample"), file.format);
  }

  void open_data() {
    if (is_streamed(config_.data))
      streams_.emplace(config_);
    else
      dataset_.emplace(config_.data);
  }

  void look_at_streams() {
    const ModelCalls calls(session_->model->api(), session_->model->handle());
    const FirstSamples first(*streams_, session_->media.held(), kSurveySamples);
    for (const Sample& sample : first.all()) {
      JudgedSample judged = judge(sample, calls, config_.data);
      if (judged.usable()) seen_.usable.push_back(std::move(judged.features));
    }
    if (first.all().empty() && first.looked_into_any())
      fail(Exit::kBadData, "data.path: expected samples in the streams, got none; look at how they were written");
    if (first.all().empty())
      fmt::print("  not looked into: a pipe is read by the run alone, so no memory is estimated\n");
    else
      fmt::print("  looked at   the first {}, of which {} can be trained on\n", counted(first.all().size(), "sample"),
                 seen_.usable.size());
  }

  void look_at_data() {
    const ModelCalls calls(session_->model->api(), session_->model->handle());
    attempt([&] {
      seen_ = survey(*dataset_, calls, config_.data, kSurveySamples);
      fmt::print("  looked at   {}: {} to {} tokens, {:.0f} on average\n", counted(seen_.looked_at, "sample"),
                 seen_.shortest, seen_.longest, seen_.mean_rows());
      if (seen_.too_long > 0)
        fmt::print("  warning: {} longer than data.max_tokens = {}, which training passes over\n", seen_.too_long,
                   config_.data.max_tokens);
      if (seen_.cut > 0)
        fmt::print("  {} longer than data.max_tokens = {}, cut to it\n", seen_.cut, config_.data.max_tokens);
      require_trainable(seen_, config_.data);
      const StepSize step = step_size(seen_, *dataset_, calls, config_.data, processes_);
      tell_of_bad_samples(step);
      const std::string warning = step_size_warning(step, config_.data, processes_, host_memory_bytes());
      if (!warning.empty()) fmt::print("  warning: {}\n", warning);
    });
  }

  void tell_of_bad_samples(const StepSize& step) {
    if (seen_.bad == 0) return;
    const double passes =
        config_.job.steps > 0 ? static_cast<double>(config_.job.steps) * step.passes : config_.job.epochs;
    attempt([&] {
      std::string warning;
      if (sound({"job.steps", "job.epochs"}) && passes > 0)
        warning = foreseen_bad(seen_, config_.data, dataset_->size(),
                               std::ceil(passes * static_cast<double>(dataset_->size())));
      if (warning.empty())
        warning = fmt::format("{} bad, which training passes over; the first: {}", seen_.bad, seen_.first_bad);
      fmt::print("  warning: {}\n", warning);
    });
  }

  void print_steps() {
    attempt([&] {
      int64_t steps = config_.job.steps;
      bool exact = true;
      if (steps == 0) {
        const StepEstimate estimate = estimated_steps();
        steps = estimate.steps;
        exact = estimate.exact;
      }
      total_steps_ = steps;
      fmt::print("steps         {}{} of at most {}: {} x {} x {}\n", exact ? "" : "about ", steps,
                 counted(config_.data.max_tokens * config_.data.micro_batches * processes_, "token"),
                 counted(processes_, "rank"), counted(config_.data.micro_batches, "micro-batch", "micro-batches"),
                 config_.data.max_tokens);
    });
  }

  StepEstimate estimated_steps() const {
    LocalExchange alone;
    JobConfig all_ranks = config_;  // one rank that takes everybody's micro-batches packs what they would
    all_ranks.data.micro_batches *= processes_;
    LoaderInputs inputs;
    inputs.config = &all_ranks;
    inputs.dataset = &*dataset_;
    inputs.api = session_->model->api();
    inputs.model = session_->model->handle();
    inputs.exchange = &alone;
    inputs.max_samples = std::max<uint64_t>(
        1, static_cast<uint64_t>(std::ceil(config_.job.epochs * static_cast<double>(dataset_->size()))));
    return estimate_steps(inputs, kEstimateSamples);
  }

  // The samples looked at, packed as the loader would, and again until a micro-batch is as full as it will be: enough
  // to see what a heavy one costs.
  std::vector<BatchFeatures> packed() const {
    std::vector<BatchFeatures> batches;
    int64_t rows = 0;
    const bool fills = config_.data.packing && seen_.rows() > 0;
    const int64_t rounds = fills ? std::min(kMostRounds, config_.data.max_tokens / seen_.rows() + 1) : 1;
    for (size_t i = 0; i < seen_.usable.size() * static_cast<size_t>(rounds); ++i) {
      const AtomFeatures& features = seen_.usable[i % seen_.usable.size()];
      if (batches.empty() || !config_.data.packing || rows + features.rows() > config_.data.max_tokens) {
        batches.emplace_back(features.numbers.size());
        rows = 0;
      }
      rows += features.rows();
      for (size_t c = 0; c < features.numbers.size(); ++c)
        batches.back()[c].insert(batches.back()[c].end(), features.numbers[c].begin(), features.numbers[c].end());
    }
    return batches;
  }

  void print_memory() const {
    if (card_) return print_memory_beside_a_card();
    const std::vector<MemoryPart> parts = memory_parts(std::nullopt);
    const uint64_t total = sums_of(parts).host;
    fmt::print("memory        {}{}\n", bytes_text(total), for_each_rank());
    for (const MemoryPart& part : parts) fmt::print("  {:<28}{:>10}\n", part.name, bytes_text(part.bytes));
    warn_of_host_memory(total);
  }

  // "auto" is taken for the card's memory where there is room: that AdamW can be had there is for a trial to show.
  void print_memory_beside_a_card() const {
    const auto parts_with = [&](bool on_device) {
      return memory_parts(StatePlaces{.on_device = on_device, .host_gradients = host_sums_gradients()});
    };
    const auto by_place = [](const MemorySums& sums) {
      return fmt::format("{} of a card's memory and {} of the host's", bytes_text(sums.device), bytes_text(sums.host));
    };
    const std::string& memory = config_.optimizer.memory;
    const auto fits = [&](const MemorySums& sums) {
      return card_->memory_bytes == 0 || sums.device <= card_->memory_bytes;
    };
    const bool on_device = memory == "device" || (memory == "auto" && fits(sums_of(parts_with(true))));
    const std::vector<MemoryPart> parts = parts_with(on_device);
    const MemorySums sums = sums_of(parts);
    fmt::print("memory        {}{}\n", by_place(sums), for_each_rank());
    for (const MemoryPart& part : parts)
      fmt::print("  {:<28}{:>10}  {}\n", part.name, bytes_text(part.bytes), part.on_device ? "card" : "host");
    if (memory == "auto" && on_device)
      fmt::print("  optimizer.memory is auto: the card's where a trial of AdamW there passes; else {}\n",
                 by_place(sums_of(parts_with(false))));
    if (!fits(sums))
      fmt::print("  warning: {} of a card of {}, which has {}; try {}{}a smaller data.max_tokens\n",
                 bytes_text(sums.device), card_->id, bytes_text(card_->memory_bytes),
                 on_device ? "optimizer.memory = \"host\", " : "",
                 config_.memory.recompute == "whole" ? "" : "memory.recompute = \"whole\", ");
    warn_of_host_memory(sums.host);
  }

  std::vector<MemoryPart> memory_parts(const std::optional<StatePlaces>& places) const {
    return estimate_memory(config_, *session_->model, *freezing_, packed(), processes_, places, place_);
  }

  // As train/gradient_transport.h chooses, but for what only opened cards tell.
  bool host_sums_gradients() const {
    if (config_.reduction.mode == "fixed") return true;
    if (processes_ == 1 || config_.reduction.transport == "device") return false;
    return config_.reduction.transport == "host" || !card_->has_collectives;
  }

  std::string for_each_rank() const {
    return processes_ == 1 ? "" : fmt::format(" for each of {}", counted(processes_, "rank"));
  }

  void warn_of_host_memory(uint64_t bytes) const {
    const uint64_t host = host_memory_bytes(), all = bytes * static_cast<uint64_t>(processes_);
    if (all > host)
      fmt::print("  warning: {} on this host, which has {}; try {}fewer processes or other hardware\n", bytes_text(all),
                 bytes_text(host),
                 config_.memory.recompute == "whole" || card_ ? "" : "memory.recompute = \"whole\", ");
  }

  void print_resume() {
    std::map<std::string, std::string> settings;
    if (has_model() && problems_.empty())
      settings = resumable_settings(config_, description(), dataset_ ? &*dataset_ : nullptr);
    fmt::print("resumes from  {}\n", resume_line(config_, settings, total_steps_, kHashedBytes));
  }

  void print_checkpoints() const {
    std::vector<StateTensor> saved;
    for (const auto& [p, elements] : trained_parameters()) {
      const ParameterInfo& parameter = description().parameters[p];
      saved.push_back(whole_tensor("parameters", parameter.name, DType::kF32, parameter.shape, nullptr));
      for (const char* moment : {".m", ".v"})
        saved.push_back(whole_tensor("optimizer", parameter.name + moment, DType::kF32, {elements}, nullptr));
      if (config_.ema.decay > 0)
        saved.push_back(whole_tensor("ema", parameter.name + kAverageSuffix, DType::kF32, parameter.shape, nullptr));
    }
    const uint64_t bytes = checkpoint_bytes(saved) + kCheckpointMargin;
    PosixFileSystem files;
    const uint64_t free = files.available_bytes(config_.job.output);
    const uint64_t needed = bytes * static_cast<uint64_t>(config_.checkpoint.keep + 1);
    fmt::print("checkpoint    {}, {} with {} kept and one being written; {} free\n", bytes_text(bytes),
               bytes_text(needed), config_.checkpoint.keep, bytes_text(free));
    if (needed > free) fmt::print("  warning: there is too little room in {}\n", config_.job.output.string());
  }

  ResolvedJob job_;
  const JobConfig& config_;
  const int processes_;
  std::string device_reason_;           // empty: nobody has chosen yet
  std::optional<DeviceChoice> device_;  // none: it could not be had
  ModelPlace place_ = ModelPlace::kDevice;
  std::optional<Card> card_;  // none: the device is the host, or could not be had
  Problems& problems_;
  Problems opening_;
  std::optional<Session> session_;
  std::optional<Freezing> freezing_;
  std::string begun_anew_;          // what the weights lack
  std::vector<int> groups_;         // by parameter; empty: not known
  std::optional<Dataset> dataset_;  // one of the two
  std::optional<StreamSet> streams_;
  Survey seen_;
  int64_t total_steps_ = 0;  // 0: not known
};

}  // namespace

int run_check(const ResolvedJob& job, int processes, const std::string& device_reason, Problems& problems) {
  Check(job, processes, device_reason, problems).run();
  std::fflush(stdout);  // the mistakes end what is read
  problems.refuse_job_if_any();
  fmt::print("job file is valid\n");
  return static_cast<int>(Exit::kDone);
}

}  // namespace lf
