// A job, fully resolved: what the TOML file, --set and the defaults say. Immutable once made; every field has passed
// its own check. The one definition of each option (name, type, default, unit, range, sentence) is in options.cpp;
// parsing,
// --help, the reference page, --print-config and the messages come from there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace lf {

struct JobSection {              // [job]
  std::string name;              // default: the job file's name without extension
  std::filesystem::path output;  // run directory; default runs/<name>
  uint64_t seed = 1;
  int64_t steps = 0;  // 0: from epochs
  double epochs = 0;  // one of steps and epochs is required
};

struct LaunchSection {  // [launch]
  int processes = 1;    // workers on this host, one per device
  int threads = 0;      // of one worker, for maths; 0: cores / local workers
};

struct DeviceSection {  // [device]; LF_DEVICE in the environment wins over name
  std::string name = "cpu";
  std::string op_fallback = "error";  // error | warn: an operator that the device lacks
  double call_timeout_seconds = 300;  // until a call of its plugin counts as hanging
};

struct ModelSection {               // [model]
  std::string family;               // plugin id
  std::filesystem::path path;       // a Hugging Face directory: config, weights, tokenizer
  std::filesystem::path config;     // or a config.json alone: random initialisation; with new_parameters beside path
  std::filesystem::path tokenizer;  // folder of tokenizer.json; default: path
  std::vector<std::string> new_parameters;  // glob patterns: what path may lack, initialised at random then
  std::vector<std::string> freeze;          // glob patterns over parameter and component names
  std::map<std::string, std::string>
      options;  // [model.options]: the family's own, as JSON values; its plugin checks them
};

// Low-rank adapters on some linear maps; what a group does not say is the section's.
struct LoraGroup {  // [[lora.groups]]
  std::vector<std::string> targets;
  std::optional<int64_t> rank;
  std::optional<double> alpha, dropout;
};

struct LoraSection {  // [lora]
  int64_t rank = 16;
  double alpha = 32;  // an adapter is scaled by alpha / rank
  double dropout = 0;
  std::vector<std::string> targets;     // glob patterns over components and the tensors of linear maps
  std::vector<LoraGroup> groups;        // further targets with numbers of their own
  std::vector<std::string> also_train;  // glob patterns over parameters that are trained as they are, beside adapters
  std::filesystem::path path;           // instead of targets: start from the adapters of this directory

  bool asked() const { return !targets.empty() || !groups.empty() || !path.empty(); }
};

struct DataSection {                        // [data]
  std::vector<std::filesystem::path> path;  // JSONL files, folders of them, LeRobot directories
  std::string format = "auto";              // auto | sharegpt | messages | text | lerobot
  std::filesystem::path media_root;         // relative image and video paths start here; default: the file's folder
  std::string chat_template = "auto";       // of the family
  int64_t max_tokens = 4096;                // per micro-batch
  int64_t micro_batches = 1;                // per step and rank
  std::string too_long = "skip";            // skip | cut: a sample of more than max_tokens
  bool packing = true;                      // several samples per micro-batch
  bool shuffle = true;
  std::string train_on = "assistant";                  // assistant | all
  int64_t image_min_pixels = 0, image_max_pixels = 0;  // after resizing; 0: the family's
  int64_t video_min_pixels = 0, video_max_pixels = 0;  // per frame
  double video_fps = 0;                                // 0: the family's
  int64_t video_max_frames = 0;
  int64_t max_decoded_pixels = 100'000'000;  // of one file, from its header, before anything is allocated
  double max_bad = 0.001;                    // share of samples that may be bad before the run stops
  int workers = 2;                           // loader threads per rank
  int prefetch_steps = 2;
};

struct BalanceSection {  // [balance]
  std::string policy = "minimax";
  std::string costs = "stated";                // stated | learned: of a step's samples
  std::string unit = "sample";                 // sample | pack: what the policy deals
  std::string objective = "auto";              // auto | sum | makespan | lockstep | two-stage: what a plan makes small
  std::map<std::string, std::string> options;  // the policy's own, as JSON values
};

struct ReductionSection {          // [reduction]
  std::string mode = "fast";       // fast | fixed: the same bits for any number of ranks
  std::string transport = "auto";  // auto | host | device: what sums gradients that are made on cards
  int64_t bucket_bytes = 16 << 20;
  double timeout_seconds = 600;  // how late a rank may be in what the ranks do together
};

struct MemorySection {             // [memory]
  std::string recompute = "none";  // none | inner | whole
};

struct OptimizerGroup {                 // [[optimizer.groups]]
  std::vector<std::string> parameters;  // glob patterns over component and parameter names
  std::optional<double> learning_rate, weight_decay;
};

struct OptimizerSection {  // [optimizer]
  std::string name = "adamw";
  std::string memory = "auto";  // auto | device | host: master weights, moments and the update
  double learning_rate = 1e-4;
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  double weight_decay = 0.1;
  bool decay_all = false;             // also norms and biases
  double clip_norm = 1.0;             // 0: off
  std::string on_nonfinite = "skip";  // skip | stop: a step whose loss or gradients are not finite
  int max_skipped = 10;               // in a row
  std::vector<OptimizerGroup> groups;
};

struct EmaSection {                  // [ema]
  double decay = 0;                  // of a moving average of the weights; 0: none is kept
  bool warmup = false;               // the decay rises to that with the updates
  std::string export_as = "beside";  // beside | instead: where the average goes at the end
};

struct ScheduleSection {        // [schedule]
  std::string name = "cosine";  // constant | linear | cosine | wsd
  int64_t warmup_steps = 0;
  double warmup_fraction = 0;   // of all steps; when warmup_steps is 0
  double final_fraction = 0.1;  // of the learning rate, at the end
  double decay_fraction = 0.2;  // wsd: share of the steps that decays
};

struct PrecisionSection {        // [precision]
  std::string compute = "bf16";  // fp32 | bf16; master weights and sums are fp32
};

struct CheckpointSection {  // [checkpoint]
  int64_t every_steps = 0;  // 0: only at the end
  double every_minutes = 0;
  int keep = 2;
  bool resume = true;
  bool export_model = true;             // write model/ at the end
  std::string export_dtype = "source";  // source | fp32 | bf16
  std::string on_full = "warn";         // warn | stop: no space left for a checkpoint
};

struct MetricsSection {  // [metrics]
  double seconds = 5;    // between progress lines where there is no terminal
  bool tensorboard = true;
};

// Where plugins come from: no options of a job; the command line and the environment say them.
struct PluginPlaces {
  std::vector<std::filesystem::path> dirs;
  bool locked = false;         // --locked: every plugin must be in its folder's plugins.lock
  std::filesystem::path core;  // liblfcore.so, whose libraries plugins' must go with; empty: of no such process
  std::string library_path;    // the value of LD_LIBRARY_PATH
};

struct JobConfig {
  std::filesystem::path file;  // the job file, absolute
  PluginPlaces plugins;
  JobSection job;
  LaunchSection launch;
  DeviceSection device;
  ModelSection model;
  LoraSection lora;
  DataSection data;
  BalanceSection balance;
  ReductionSection reduction;
  MemorySection memory;
  OptimizerSection optimizer;
  EmaSection ema;
  ScheduleSection schedule;
  PrecisionSection precision;
  CheckpointSection checkpoint;
  MetricsSection metrics;
};

}  // namespace lf
