#include "balance_command/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <sstream>
#include <type_traits>
#include <utility>

#include <boost/program_options.hpp>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "balance_command/cost_option.h"
#include "core/error.h"

namespace lf {
namespace {

namespace po = boost::program_options;

constexpr const char* kDefaultCost = "8B";
constexpr double kTraining = 3;         // forward, and backward which is twice that
constexpr int64_t kPerMicroBatch = 20;  // samples drawn; of D1, packs of about 16K tokens
constexpr int64_t kMostMicroBatches = int64_t{1} << 20, kMostTokens = int64_t{1} << 40;

po::options_description description() {
  po::options_description all("Options", 118, 50);
  const std::string synthetic =
      fmt::format("samples drawn from a distribution: {} (docs/benchmarks/balancing.md says what they are)",
                  fmt::join(synthetic_names(), ", "));
  // clang-format off
  all.add_options()
      ("help", "this text")
      ("samples", po::value<std::string>()->value_name("FILE"), "CSV with a header of id,text_tokens,vision_patches,frames (absent columns are 0), JSONL of the same keys, a data set as training reads it, or a job file (.toml): its data, counted, limited and packed as its training would")
      ("set", po::value<std::vector<std::string>>()->value_name("KEY=VALUE"), "a setting of the job file; may be repeated")
      ("synthetic", po::value<std::string>()->value_name("NAME"), synthetic.c_str())
      ("per-rank", po::value<std::string>()->value_name("N"), "samples of a rank in a step; by default 20 a micro-batch of drawn samples, and all samples of a file in one step")
      ("pack", po::value<std::string>()->value_name("N"), "samples arrive in packs of so many tokens, and as many as fill a step make one; a job's data.max_tokens")
      ("too-long", po::value<std::string>()->value_name("WORD"), "(skip) samples longer than a pack: skip or cut, as data.too_long of training")
      ("image-max-pixels", po::value<std::string>()->value_name("N"), "of pictures in a data set, as data.image_max_pixels of training; 0: their own size")
      ("seed", po::value<std::string>()->value_name("N"), "(1) of the draw, and of the order of a file's samples")
      ("ranks", po::value<std::string>()->value_name("R"), "(8; of a job its launch.processes) replicas")
      ("micro-batches", po::value<std::string>()->value_name("M"), "(1; of a job its data.micro_batches) of a rank in a step")
      ("cap", po::value<std::string>()->value_name("X"), "(1.05) room of a micro-batch, times the mean of tokens; never below the longest sample; 0: no limit")
      ("objective", po::value<std::string>()->value_name("WORD"), "(sum) where ranks wait: makespan, sum: once a step; lockstep: at every micro-batch; two-stage: between encoder and decoder")
      ("policy", po::value<std::string>()->value_name("A,B"), "(none,longest_first,karmarkar_karp,minimax)")
      ("option", po::value<std::vector<std::string>>()->value_name("P.KEY=VALUE"), "a setting of a policy, such as minimax.moves=few; may be repeated")
      ("trigger", po::value<std::string>()->value_name("X"), "(0) leave a step as it arrives unless its slowest rank is more than X above the mean, such as 0.2")
      ("cost", po::value<std::string>()->value_name("NAME"), "(8B) a model by size: 1B, 8B, 70B, 6B+20B, 0.6B+8B; or A,B,C: A*L^2 + B*L + C seconds for a sample of L tokens")
      ("model", po::value<std::string>()->value_name("PATH"), "config.json of a Hugging Face model, or its folder, instead of --cost")
      ("frames-apart", "the encoder's work on a frame or tile may be done on any rank")
      ("flops", po::value<std::string>()->value_name("F"), "(400e12) floating-point operations a second that a rank reaches; leaves the fitted costs of --profile out")
      ("scaling", po::value<std::string>()->value_name("A..B"), "instead: step time, throughput and efficiency against the number of ranks, doubling from A to B; samples of a file are drawn from it with replacement")
      ("profile", po::value<std::string>()->value_name("FILE"), "profile.json that training wrote: samples of the same model (a job file, --model or --cost) cost what it fitted, and --scaling goes by what it measured")
      ("plot", po::value<std::string>()->value_name("FILE.svg"), "ranks before and after, or the curves of --scaling")
      ("json", "numbers for programs");
  // clang-format on
  return all;
}

void require(bool good, const char* flag, const std::string& expected, const std::string& got) {
  if (!good)
    fail(Exit::kUsage, "lfrun balance: --{}: expected {}, got {}; see lfrun balance --help", flag, expected,
         got.empty() ? "nothing" : got);
}

// Flags are words until here: what is no number is then told like everything else that is wrong.
template <typename T>
void take(const po::variables_map& given, const char* name, T& target) {
  if (given.count(name) == 0) return;
  if constexpr (std::is_same_v<T, std::vector<std::string>>) {
    target = given[name].as<T>();
  } else {
    const auto& text = given[name].as<std::string>();
    require(!text.empty(), name, "a value", text);
    if constexpr (std::is_arithmetic_v<T>) {
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), target);
      require(error != std::errc::result_out_of_range, name, fmt::format("at most {}", std::numeric_limits<T>::max()),
              text);
      require(error == std::errc{} && end == text.data() + text.size(), name,
              std::is_integral_v<T> ? "a whole number" : "a number", text);
    } else {
      target = text;
    }
  }
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
    require(dot != text.npos && equals != text.npos && 0 < dot && dot + 1 < equals, "option", "POLICY.KEY=VALUE", text);
    const std::string value = text.substr(equals + 1);
    nlohmann::json parsed = nlohmann::json::parse(value, nullptr, false);
    if (parsed.is_discarded()) parsed = value;
    tables[text.substr(0, dot)][text.substr(dot + 1, equals - dot - 1)] = parsed;
  }
  std::map<std::string, std::string> options;
  for (const auto& [policy, table] : tables) options[policy] = table.dump();
  return options;
}

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
  require(!given.count("cost") || model.empty(), "model", "--model or --cost", "both");
  const bool job = std::filesystem::path(samples).extension() == ".toml";
  require(!job || (!given.count("cost") && model.empty()), model.empty() ? "cost" : "model",
          "none with a job file, whose model states its costs", model.empty() ? cost : model);
  require(!job || !given.count("pack"), "pack", "none with a job file; give --set data.max_tokens=N",
          std::to_string(options.scenario.pack));
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
  require(options.scenario.cap == 0 || (options.scenario.cap >= 1 && std::isfinite(options.scenario.cap)), "cap",
          "0 or a number from 1", fmt::format("{}", options.scenario.cap));
  require(options.per_rank >= 0 && options.per_rank <= kMostDrawn, "per-rank", fmt::format("0 to {}", kMostDrawn),
          std::to_string(options.per_rank));
  require(options.scenario.pack >= 0 && options.scenario.pack <= kMostTokens, "pack",
          fmt::format("0 to {} tokens", kMostTokens), std::to_string(options.scenario.pack));
  require(options.per_rank == 0 || options.scenario.pack == 0, "per-rank", "either --per-rank or --pack", "both");
  require(options.trigger >= 0, "trigger", "a number from 0", fmt::format("{}", options.trigger));
  if (options.per_rank == 0 && options.scenario.pack == 0 && !job && (!synthetic.empty() || !scaling.empty()))
    options.per_rank = kPerMicroBatch * options.scenario.micro_batches;
  options.policies = split(policies);
  require(!options.policies.empty(), "policy", "names of policies", policies);
  require(std::set<std::string>(options.policies.begin(), options.policies.end()).size() == options.policies.size(),
          "policy", "each policy once", policies);
  (job ? options.job : options.samples) = samples;
  options.synthetic = synthetic;
  options.policy_options = settings(sets);
  for (const auto& [policy, json] : options.policy_options)
    require(std::ranges::find(options.policies, policy) != options.policies.end(), "option", "a policy of --policy",
            policy);
  options.scenario.objective = objective(wanted);
  options.cost = model.empty() ? cost_of_option(cost) : cost_of_model(model);
  options.cost_name = model.empty() ? cost : model;
  constexpr double kBf16Bytes = 2;
  if (!is_in_seconds(options.cost)) options.profile.gradient_bytes = kBf16Bytes * options.cost.parameters();
  if (!profile.empty()) options.profile = read_profile(profile, options.profile);
  require(!options.profile.fitted || job || given.count("cost") || !model.empty() || given.count("flops"), "profile",
          "--model (or --cost) beside it, the model whose costs it tells", profile + " alone");
  require(!given.count("flops") || !is_in_seconds(options.cost), "flops",
          "none where --cost gives seconds, as A,B,C are",
          given.count("flops") ? given["flops"].as<std::string>() : "");
  take(given, "flops", options.profile.flops_per_second);
  require(options.profile.flops_per_second > 0 && std::isfinite(options.profile.flops_per_second), "flops",
          "a number above 0", fmt::format("{}", options.profile.flops_per_second));
  options.scenario.flops_per_second = is_in_seconds(options.cost) ? 1 : options.profile.flops_per_second / kTraining;
  if (!scaling.empty()) options.scaling = doubling_range(scaling);
  require(scaling.empty() || !given.count("ranks"), "ranks", "none with --scaling, which says how many",
          std::to_string(options.scenario.replicas));
  const int64_t most_ranks = scaling.empty() ? options.scenario.replicas : options.scaling.back();
  const char* const ranks_flag = scaling.empty() ? "ranks" : "scaling";
  require(most_ranks * options.scenario.micro_batches <= kMostMicroBatches, ranks_flag,
          fmt::format("at most {} micro-batches in a step", kMostMicroBatches),
          fmt::format("{} ranks x {}", most_ranks, options.scenario.micro_batches));
  require(most_ranks * options.per_rank <= kMostDrawn, ranks_flag,
          fmt::format("at most {} samples in a step", kMostDrawn),
          fmt::format("{} ranks x {}", most_ranks, options.per_rank));
  options.plot = plot;
  return options;
}

}  // namespace lf
