#include "train/meeting.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <set>
#include <sstream>

#include <nlohmann/json.hpp>

#include "core/amount.h"
#include "core/error.h"

namespace lf {
namespace {

// What a host decides for itself: how many workers and threads it has.
constexpr std::array<std::string_view, 3> kMayDiffer = {"launch.processes", "launch.threads", "data.workers"};
constexpr size_t kShownHash = 12;  // characters

}  // namespace

std::unique_ptr<Rendezvous> meet(const TrainRequest& request) {
  RendezvousConfig config;
  config.rank = request.rank;
  config.size = request.world_size;
  config.generation = fmt::format("g{}", request.generation);
  config.timeout = collective_timeout(request.job.config);
  config.stop_requested = request.stop_requested;
  std::shared_ptr<KeyValueStore> store;
  if (!request.store.empty()) {
    MeetingPlace place = open_store(request.store, request.serve_store, config.form_timeout, request.stop_requested);
    store = std::move(place.store);
    config.address = place.listen_address;
  } else if (request.world_size == 1) {
    store = in_process_store();
  } else {
    fail(Exit::kUsage, "{} ranks and no store where they could meet", request.world_size);
  }
  return std::make_unique<Rendezvous>(config, store);
}

std::chrono::milliseconds collective_timeout(const JobConfig& config) {
  return std::chrono::milliseconds(static_cast<int64_t>(config.reduction.timeout_seconds * 1000));
}

void require_agreement(Exchange& exchange, const std::string& what, const std::string& bytes) {
  const std::vector<std::string> all = exchange.all_gather(bytes);
  for (size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank] != all[0])
      fail(Exit::kConfig,
           "rank {} has another {} than rank 0; every rank must run the same lfrun, plugins and job file", rank, what);
}

void part(Exchange& exchange) {
  try {
    exchange.all_gather("");
  } catch (const Error&) {  // a peer has ended: it knows as much
  }
}

void require_same_job(Exchange& exchange, const JobConfig& config, bool fresh) {
  std::map<std::string, std::string> mine = {{"--fresh", fresh ? "given" : "not given"}};
  for (const std::string& name : option_names())
    if (std::find(kMayDiffer.begin(), kMayDiffer.end(), name) == kMayDiffer.end())
      mine[name] = option_json(config, name).value_or("null");
  const std::vector<std::string> all = exchange.all_gather(nlohmann::json(mine).dump());
  const nlohmann::json first = nlohmann::json::parse(all[0]);
  std::set<std::string> told;
  std::string differences;
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    const nlohmann::json other = nlohmann::json::parse(all[rank]);
    for (const auto& [name, value] : other.items()) {
      const std::string expected = first.value(name, "nothing"), got = value.get<std::string>();
      if (got == expected || !told.insert(name).second) continue;
      differences += fmt::format(
          "{}{}: expected the same on every rank, got {} on rank 0 and {} on rank {}; start every "
          "rank with the same job",
          differences.empty() ? "" : "\n", name, expected, got, rank);
    }
  }
  if (differences.empty()) return;
  part(exchange);
  fail(Exit::kConfig, "{}", differences);
}

void require_same_data(Exchange& exchange, const Dataset& dataset) {
  nlohmann::json mine = {{"hashes", dataset.fingerprint()}, {"samples", nlohmann::json::array()}};
  for (const Dataset::File& file : dataset.files()) mine["samples"].push_back(file.samples);
  const std::vector<std::string> all = exchange.all_gather(mine.dump());
  const auto rank = std::find_if(all.begin(), all.end(), [&](const std::string& one) { return one != all[0]; });
  if (rank == all.end()) return;
  const auto words = [](const std::string& text) {
    std::istringstream in(nlohmann::json::parse(text).at("hashes").get<std::string>());
    return std::vector<std::string>{std::istream_iterator<std::string>(in), {}};
  };
  const std::vector<std::string> first = words(all[0]), other = words(*rank);
  size_t file = 0;
  while (file + 1 < first.size() && file < other.size() && first[file] == other[file]) ++file;
  const auto samples = [&](const std::string& text) {
    const nlohmann::json counts = nlohmann::json::parse(text).at("samples");
    return counted(file < counts.size() ? counts[file].get<uint64_t>() : 0, "sample");
  };
  part(exchange);
  fail(
      Exit::kConfig,
      "data.path: {}: expected the same bytes on every rank, got {} with hash {} on rank 0 and {} with hash {} on rank "
      "{}; give every host the same copy",
      dataset.files().at(file).path.string(), samples(all[0]), first.at(file).substr(0, kShownHash), samples(*rank),
      (file < other.size() ? other[file] : std::string("none")).substr(0, kShownHash), rank - all.begin());
}

}  // namespace lf
