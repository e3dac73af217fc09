#include "pi05/data/robot_samples.h"

#include <map>
#include <mutex>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "family/sample_place.h"
#include "pi05/data/episode_reader.h"
#include "pi05/data/prompt.h"
#include "text/job_tokenizer.h"

namespace lf::robot {
namespace {

struct FramePlace {
  std::string directory;
  int64_t frame = 0;
};

FramePlace frame_place(const lf_sample& sample) {
  const nlohmann::json json = nlohmann::json::parse(sdk::view(sample.json), nullptr, false);
  const nlohmann::json robot = json.is_object() ? json.value("robot", nlohmann::json()) : nlohmann::json();
  if (!robot.is_object() || !robot.value("directory", nlohmann::json()).is_string() ||
      !robot.value("frame", nlohmann::json()).is_number_unsigned())
    throw sdk::Failure(LF_E_DATA, "expected a frame of a LeRobot directory; set data.path to one");
  return {robot["directory"].get<std::string>(), robot["frame"].get<int64_t>()};
}

}  // namespace

struct RobotSamples::State {
  const lf_host* host;
  family::MediaAccess media;
  RobotShape shape;
  RobotOptions options;
  std::string tokenizer_folder;

  std::once_flag tokenizer_read;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<EpisodeReader>> readers;

  const text::Tokenizer& tokenizer() {
    std::call_once(tokenizer_read, [&] {
      tokenizer_ = text::open_job_tokenizer(tokenizer_folder, [](const std::filesystem::path& path) {
        return std::make_unique<text::Tokenizer>(text::Tokenizer::load(path));
      });
    });
    return *tokenizer_;
  }

  const EpisodeReader& reader(const std::string& directory) {
    const std::lock_guard lock(mutex);
    auto& reader = readers[directory];
    if (reader) return *reader;
    try {
      reader = std::make_unique<EpisodeReader>(host, media, directory, shape, options);
    } catch (const sdk::Failure& failure) {  // no other sample of the directory would fare better
      throw sdk::Failure(failure.code() == LF_E_DATA ? int32_t{LF_E_INVALID} : failure.code(), failure.what());
    }
    return *reader;
  }

  std::vector<text::TokenId> prompt(const EpisodeReader& reader, const EpisodeReader::Moment& moment) {
    const std::string& task = reader.task(moment);
    const std::string words =
        options.state_in_prompt ? prompt_text(task, reader.normalized_state(moment)) : prompt_text(task);
    std::vector<text::TokenId> ids = prompt_tokens(tokenizer(), words);
    if (static_cast<int64_t>(ids.size()) > options.max_prompt_tokens)
      throw sdk::Failure(LF_E_DATA, fmt::format("a prompt of {} tokens; expected at most {} "
                                                "(model.options.max_prompt_tokens)",
                                                ids.size(), options.max_prompt_tokens));
    return ids;
  }
};

RobotSamples::RobotSamples(const lf_host* host, RobotShape shape, RobotOptions options, std::string tokenizer)
    : state_(
          new State{host, family::MediaAccess(host), shape, std::move(options), std::move(tokenizer), {}, {}, {}, {}}) {
  if (static_cast<int64_t>(state_->options.cameras.size()) > shape.views)
    throw sdk::Failure(LF_E_INVALID,
                       fmt::format("model.options.cameras: expected at most {}, the model's views, got {}", shape.views,
                                   state_->options.cameras.size()));
}

RobotSamples::~RobotSamples() = default;

void RobotSamples::open_tokenizer() const { state_->tokenizer(); }

RobotSampleSize RobotSamples::size(const lf_sample& sample) const {
  return family::at_place(sample, [&] {
    const FramePlace place = frame_place(sample);
    const EpisodeReader& reader = state_->reader(place.directory);
    const EpisodeReader::Moment moment = reader.moment(place.frame);
    return RobotSampleSize{reader.present_views(moment), static_cast<int64_t>(state_->prompt(reader, moment).size()),
                           reader.valid_actions(moment), reader.action_width()};
  });
}

UsedStatistics RobotSamples::statistics(const std::string& directory) const {
  return state_->reader(directory).statistics();
}

RobotSample RobotSamples::read(const lf_sample& sample) const {
  return family::at_place(sample, [&] {
    const FramePlace place = frame_place(sample);
    const EpisodeReader& reader = state_->reader(place.directory);
    const EpisodeReader::Moment moment = reader.moment(place.frame);
    RobotSample out;
    out.views = reader.views(moment);
    out.cameras = reader.cameras();
    out.prompt = state_->prompt(reader, moment);
    out.own_dims = reader.action_width();
    reader.actions(moment, out.actions, out.valid);
    return out;
  });
}

}  // namespace lf::robot
