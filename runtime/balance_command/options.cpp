#include "balance_command/options.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include <boost/program_options.hpp>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace lf {
namespace {

namespace po = boost::program_options;

constexpr const char* kDefaultCost = "8B";
constexpr double kTraining = 3;         // forward, and backward which is twice that
constexpr int64_t kPerMicroBatch = 20;  // samples drawn; of D1, packs of about 16K tokens

po::options_description description() {
  po::options_description all("Options", 118, 50);
  // clang-format off
  all.add_options()
      ("help", "this text")
      ("samples", po::value<std::string>()->value_name("FILE"), "CSV with a header of id,text_tokens,vision_patches,frames (absent columns are 0), JSONL of the same keys, a data set as training reads it, or a job file (.toml): its data, counted, limited and packed as its training would")
      ("set", po::value<std::vector<std::string>>()->value_name("KEY=VALUE"), "a setting of the job file; may be repeated")
      ("synthetic", po::value<std::string>()->value_name("NAME"), "samples drawn from a distribution: D1 ... D6, joint, video10 (docs/benchmarks/balancing.md says what they are)")
      ("per-rank", po::value<int64_t>()->value_name("N"), "samples of a rank in a step; by default 20 a micro-batch of drawn samples, and all samples of a file in one step")
      ("pack", po::value<int64_t>()->value_name("N"), "samples arrive in packs of so many tokens, and as many as fill a step make one; a job's data.max_tokens")
      ("too-long", po::value<std::string>()->value_name("WORD"), "(skip) samples longer than a pack: skip or cut, as data.too_long of training")
      ("image-max-pixels", po::value<int64_t>()->value_name("N"), "of pictures in a data set, as data.image_max_pixels of training; 0: their own size")
      ("seed", po::value<int64_t>()->value_name("N"), "(1) of the draw, and of the order of a file's samples")
      ("ranks", po::value<int32_t>()->value_name("R"), "(8; of a job its launch.processes) replicas")
      ("micro-batches", po::value<int32_t>()->value_name("M"), "(1; of a job its data.micro_batches) of a rank in a step")
      ("cap", po::value<double>()->value_name("X"), "(1.05) room of a micro-batch, times the mean of tokens; never below the longest sample; 0: no limit")
      ("objective", po::value<std::string>()->value_name("WORD"), "(sum) where ranks wait: makespan, sum: once a step; lockstep: at every micro-batch; two-stage: between encoder and decoder")
      ("policy", po::value<std::string>()->value_name("A,B"), "(none,longest_first,karmarkar_karp,minimax)")
      ("option", po::value<std::vector<std::string>>()->value_name("P.KEY=VALUE"), "a setting of a policy, such as minimax.moves=few; may be repeated")
      ("trigger", po::value<double>()->value_name("X"), "(0) leave a step as it arrives unless its slowest rank is more than X above the mean, such as 0.2")
      ("cost", po::value<std::string>()->value_name("NAME"), "(8B) a model by size: 1B, 8B, 70B, 6B+20B, 0.6B+8B; or A,B,C: A*L^2 + B*L + C for a sample of L tokens")
      ("model", po::value<std::string>()->value_name("PATH"), "config.json of a Hugging Face model, or its folder, instead of --cost")
      ("frames-apart", "the encoder's work on a frame or tile may be done on any rank")
      ("flops", po::value<double>()->value_name("F"), "(400e12) floating-point operations a second that a rank reaches; leaves the fitted costs of --profile out")
      ("scaling", po::value<std::string>()->value_name("A..B"), "instead: step time, throughput and efficiency against the number of ranks, doubling from A to B")
      ("profile", po::value<std::string>()->value_name("FILE"), "profile.json that training wrote: samples cost what it fitted, and --scaling goes by what it measured")
      ("plot", po::value<std::string>()->value_name("FILE.svg"), "ranks before and after, or the curves of --scaling")
      ("json", "numbers for programs");
  // clang-format on
  return all;
}

template <typename T>
void take(const po::variables_map& given, const char* name, T& target) {
  if (given.count(name) > 0) target = given[name].as<T>();
}

void require(bool good, const char* flag, const std::string& expected, const std::string& got) {
  if (!good) fail(Exit::kUsage, "lfrun balance: --{}: expected {}, got {}", flag, expected, got);
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> words;
  std::stringstream in(text);
  for (std::string word; std::getline(in, word, ',');)
    if (!word.empty()) words.push_back(word);
  return words;
}

int32_t objective(const std::string& word) {
  if (word == "makespan") return LF_OBJECTIVE_MAKESPAN;
  if (word == "lockstep") return LF_OBJECTIVE_LOCKSTEP;
  if (word == "two-stage") return LF_OBJECTIVE_TWO_STAGE;
  if (word == "sum") return LF_OBJECTIVE_SUM;
  require(false, "objective", "makespan, lockstep, two-stage or sum", word);
  return 0;
}

// "minimax.moves=few" -> {"minimax": {"moves": "few"}}; values that are no JSON are words.
std::map<std::string, std::string> settings(const std::vector<std::string>& texts) {
  std::map<std::string, nlohmann::json> tables;
  for (const std::string& text : texts) {
    const size_t dot = text.find('.'), equals = text.find('=');
    require(dot != text.npos && equals != text.npos && dot < equals, "option", "POLICY.KEY=VALUE", text);
    const std::string value = text.substr(equals + 1);
    nlohmann::json parsed = nlohmann::json::parse(value, nullptr, false);
    if (parsed.is_discarded()) parsed = value;
    tables[text.substr(0, dot)][text.substr(dot + 1, equals - dot - 1)] = parsed;
  }
  std::map<std::string, std::string> options;
  for (const auto& [policy, table] : tables) options[policy] = table.dump();
  return options;
}

WorkCost cost_of(const std::string& text) {
  if (text.find(',') == text.npos) return named_cost(text);
  WorkCost cost;
  const std::vector<std::string> numbers = split(text);
  double values[3] = {0, 0, 0};
  bool good = numbers.size() == 3;
  for (size_t i = 0; good && i < 3; ++i) {
    std::istringstream in(numbers[i]);
    good = static_cast<bool>(in >> values[i]) && in.eof() && values[i] >= 0;
  }
  require(good && values[0] + values[1] > 0, "cost", "a model's name or three numbers A,B,C from 0", text);
  cost.quadratic = values[0];
  cost.linear = values[1];
  cost.per_sample = values[2];
  return cost;
}

// Parameters of a layer from the sizes that Hugging Face configurations give: attention with grouped keys and values,
// and a gated feed-forward (three matrices), or two matrices in a vision tower; of experts, those that a token sees.
double layer_parameters(const nlohmann::json& config, double width, int matrices, const char* heads_key) {
  const double heads = config.value(heads_key, 1.0), kv_heads = config.value("num_key_value_heads", heads);
  const double experts = config.value("num_experts_per_tok", 0.0);
  const double inner =
      experts > 0 && config.contains("moe_intermediate_size")
          ? config["moe_intermediate_size"].get<double>() * (experts + config.value("n_shared_experts", 0.0))
          : config.value("intermediate_size", 4 * width);
  return 2 * width * width + 2 * width * width * kv_heads / heads + matrices * width * inner;
}

WorkCost cost_of_config(const std::filesystem::path& path) {
  std::ifstream in(path);
  if (!in) fail(Exit::kInputMissing, "lfrun balance: --model: {} cannot be read", path.string());
  const nlohmann::json json = nlohmann::json::parse(in, nullptr, false);
  if (!json.is_object()) fail(Exit::kBadData, "{}: expected a JSON object", path.string());
  const nlohmann::json text = json.value("text_config", json.value("llm_config", json));
  const auto size = [&](const nlohmann::json& config, const char* key) {
    if (!config.contains(key) || !config[key].is_number())
      fail(Exit::kBadData, "{}: expected a number {}; give --cost A,B,C instead", path.string(), key);
    return config[key].get<double>();
  };
  WorkCost cost;
  cost.decoder.width = size(text, "hidden_size");
  cost.decoder.layers = size(text, "num_hidden_layers");
  cost.decoder.layer_parameters = layer_parameters(text, cost.decoder.width, 3, "num_attention_heads");
  cost.head = 2 * cost.decoder.width * text.value("vocab_size", json.value("vocab_size", 0.0));
  if (json.contains("vision_config")) {
    const nlohmann::json& vision = json["vision_config"];
    const bool embed = vision.contains("embed_dim");  // Qwen2-VL's names
    cost.encoder.width = size(vision, embed ? "embed_dim" : "hidden_size");
    cost.encoder.layers = size(vision, vision.contains("depth") ? "depth" : "num_hidden_layers");
    // Qwen2.5-VL's tower: gated, and in most of its layers patches attend within windows.
    const bool windows = vision.contains("fullatt_block_indexes") && vision.value("window_size", 0) > 0;
    if (windows) {
      const int64_t side = vision["window_size"].get<int64_t>() / std::max<int64_t>(1, vision.value("patch_size", 14));
      cost.encoder.window = side * side;
      cost.encoder.whole_layers = static_cast<double>(vision["fullatt_block_indexes"].size());
    }
    cost.encoder.layer_parameters =
        layer_parameters(vision, cost.encoder.width, windows ? 3 : 2,
                         vision.contains("num_heads") ? "num_heads" : "num_attention_heads");
  }
  return cost;
}

WorkCost cost_of_model(std::filesystem::path path) {
  if (std::filesystem::is_directory(path)) path /= "config.json";
  try {
    return cost_of_config(path);
  } catch (const nlohmann::json::exception& wrong) {
    fail(Exit::kBadData, "{}: {}; give --cost A,B,C instead", path.string(), wrong.what());
  }
}

bool units_of_user(const WorkCost& cost) { return cost.quadratic + cost.linear > 0; }

}  // namespace

std::string balance_help() {
  std::ostringstream out;
  out << "lfrun balance: what balancing would gain on these samples, before machines are rented\n\n"
         "  lfrun balance samples.csv --ranks 64 --micro-batches 4\n"
         "  lfrun balance train.jsonl --ranks 256 --micro-batches 4 --pack 16384 --model config.json --plot out.svg\n"
         "  lfrun balance --synthetic D1 --ranks 512 --micro-batches 4 --json\n"
         "  lfrun balance job.toml --scaling 8..4096 --profile runs/mine/profile.json\n\n"
      << description();
  return out.str();
}

BalanceOptions read_balance_options(std::span<const std::string> arguments) {
  po::variables_map given;
  try {
    const std::vector<std::string> words(arguments.begin(), arguments.end());
    po::positional_options_description file;
    file.add("samples", 1);
    po::store(po::command_line_parser(words)
                  .options(description())
                  .positional(file)
                  .style(po::command_line_style::unix_style & ~po::command_line_style::allow_guessing)
                  .run(),
              given);
  } catch (const po::error& error) {
    fail(Exit::kUsage, "lfrun balance: {}; see lfrun balance --help", error.what());
  }

  BalanceOptions options;
  options.help = given.count("help") > 0;
  if (options.help) return options;
  for (const auto& [name, value] : given) options.given.insert(name);
  std::string samples, synthetic, policies = "none,longest_first,karmarkar_karp,minimax", cost = kDefaultCost, model,
                                  profile, scaling, plot, wanted = "sum", too_long = "skip";
  std::vector<std::string> sets;
  take(given, "samples", samples);
  take(given, "synthetic", synthetic);
  take(given, "set", options.sets);
  take(given, "too-long", too_long);
  take(given, "image-max-pixels", options.image_max_pixels);
  take(given, "per-rank", options.per_rank);
  take(given, "pack", options.scenario.pack);
  int64_t seed = 1;
  take(given, "seed", seed);
  require(seed >= 0, "seed", "a number from 0", std::to_string(seed));
  options.seed = static_cast<uint64_t>(seed);
  options.scenario.replicas = 8;
  take(given, "ranks", options.scenario.replicas);
  take(given, "micro-batches", options.scenario.micro_batches);
  take(given, "cap", options.scenario.cap);
  take(given, "objective", wanted);
  take(given, "policy", policies);
  take(given, "option", sets);
  take(given, "trigger", options.trigger);
  take(given, "cost", cost);
  take(given, "model", model);
  take(given, "scaling", scaling);
  take(given, "profile", profile);
  take(given, "plot", plot);
  options.json = given.count("json") > 0;
  options.scenario.frames_are_atoms = given.count("frames-apart") > 0;

  if (samples.empty() && synthetic.empty() && !scaling.empty()) synthetic = "D1";
  require(samples.empty() || synthetic.empty(), "samples", "a file or --synthetic", "both");
  require(!samples.empty() || !synthetic.empty(), "samples",
          "a file of samples, or --synthetic NAME (see lfrun balance --help)", "neither");
  require(cost == kDefaultCost || model.empty(), "model", "--model or --cost", "both");
  const bool job = std::filesystem::path(samples).extension() == ".toml";
  require(!job || (cost == kDefaultCost && model.empty()), model.empty() ? "cost" : "model",
          "none with a job file, whose model states its costs", model.empty() ? cost : model);
  require(job || options.sets.empty(), "set", "a job file to set it in", options.sets.empty() ? "" : options.sets[0]);
  require(too_long == "skip" || too_long == "cut", "too-long", "skip or cut", too_long);
  require(!job || !given.count("too-long"), "too-long", "none with a job file; give --set data.too_long=" + too_long,
          too_long);
  require(job || !given.count("too-long") || options.scenario.pack > 0, "too-long", "a --pack beside it", too_long);
  require(options.image_max_pixels >= 0, "image-max-pixels", "a number from 0",
          std::to_string(options.image_max_pixels));
  require(!job || !given.count("image-max-pixels"), "image-max-pixels",
          "none with a job file; give --set data.image_max_pixels=N", std::to_string(options.image_max_pixels));
  options.cuts = too_long == "cut";
  require(options.scenario.replicas >= 1 && options.scenario.replicas <= 65536, "ranks", "1 to 65536",
          std::to_string(options.scenario.replicas));
  require(options.scenario.micro_batches >= 1 && options.scenario.micro_batches <= 4096, "micro-batches", "1 to 4096",
          std::to_string(options.scenario.micro_batches));
  require(int64_t{options.scenario.replicas} * options.scenario.micro_batches <= 1 << 20, "ranks",
          "at most 1048576 micro-batches in a step", std::to_string(options.scenario.replicas));
  require(options.scenario.cap == 0 || options.scenario.cap >= 1, "cap", "0 or a number from 1",
          fmt::format("{}", options.scenario.cap));
  require(options.per_rank >= 0, "per-rank", "a number from 0", std::to_string(options.per_rank));
  require(options.scenario.pack >= 0, "pack", "a number from 0", std::to_string(options.scenario.pack));
  require(options.per_rank == 0 || options.scenario.pack == 0, "per-rank", "either --per-rank or --pack", "both");
  require(options.trigger >= 0, "trigger", "a number from 0", fmt::format("{}", options.trigger));
  if (options.per_rank == 0 && options.scenario.pack == 0 && !job && (!synthetic.empty() || !scaling.empty()))
    options.per_rank = kPerMicroBatch * options.scenario.micro_batches;
  options.policies = split(policies);
  require(!options.policies.empty(), "policy", "names of policies", policies);
  (job ? options.job : options.samples) = samples;
  options.synthetic = synthetic;
  options.policy_options = settings(sets);
  for (const auto& [policy, json] : options.policy_options)
    require(std::ranges::find(options.policies, policy) != options.policies.end(), "option", "a policy of --policy",
            policy);
  options.scenario.objective = objective(wanted);
  options.cost = model.empty() ? cost_of(cost) : cost_of_model(model);
  options.cost_name = model.empty() ? cost : model;
  constexpr double kBf16Bytes = 2;
  if (!units_of_user(options.cost)) options.profile.gradient_bytes = kBf16Bytes * options.cost.parameters();
  if (!profile.empty()) options.profile = read_profile(profile, options.profile);
  take(given, "flops", options.profile.flops_per_second);
  require(options.profile.flops_per_second > 0, "flops", "a number above 0",
          fmt::format("{}", options.profile.flops_per_second));
  options.scenario.flops_per_second = units_of_user(options.cost) ? 1 : options.profile.flops_per_second / kTraining;
  if (!scaling.empty()) options.scaling = doubling_range(scaling);
  options.plot = plot;
  return options;
}

}  // namespace lf
