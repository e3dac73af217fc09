// Pipes and archives, against files written for the purpose and archives written by Python's tarfile.
#include <atomic>
#include <csignal>
#include <future>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "core/error.h"
#include "data/media/media_reader.h"
#include "data/stream/stream_set.h"
#include "scratch.h"
#include "support/tar_writer.h"

namespace lf {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

bool never() { return false; }

std::string line(const std::string& text) {
  return R"({"messages":[{"role":"user","content":")" + text + R"("},{"role":"assistant","content":"a"}]})";
}
std::string line_with_picture(const std::string& path) {
  return R"({"images":[")" + path +
         R"("],"messages":[{"role":"user","content":"<image>"},{"role":"assistant","content":"a"}]})";
}

class Streams : public testing::Test {
 protected:
  JobConfig job(std::vector<std::filesystem::path> paths) const {
    JobConfig config;
    config.job.steps = 1;
    config.data.path = std::move(paths);
    return config;
  }

  // All samples of one stream: places of the good ones, reasons of the bad ones.
  std::vector<std::string> told(const std::filesystem::path& path) {
    config_ = job({path});
    const auto feed = StreamSet(config_).open(0, never);
    std::vector<std::string> out;
    samples_.clear();
    while (auto fed = feed->next()) {
      out.push_back(fed->bad.empty() ? fed->place : fed->bad);
      samples_.push_back(std::move(*fed));
    }
    return out;
  }

  std::string failure(const std::string& tar) {
    try {
      return testing::PrintToString(told(scratch_.write("broken.tar", tar)));
    } catch (const Error& error) {
      EXPECT_EQ(error.exit(), Exit::kBadData);
      return error.what();
    }
  }

  Scratch scratch_;
  JobConfig config_;
  std::vector<FedSample> samples_;
};

TEST_F(Streams, members_are_the_same_in_every_format_of_tar) {
  const std::filesystem::path folder = std::filesystem::path(LF_SOURCE_DIR) / "tests/fixtures/tar";
  std::string deep;
  for (int i = 0; i < 16; ++i) deep += "folder/";
  for (const char* format : {"ustar.tar", "gnu.tar", "pax.tar"}) {
    const std::string name = format;
    EXPECT_THAT(told(folder / name),
                ElementsAre(name + ":./0001.json", name + ":" + deep + "deep/0002.json", name + ":zwölf.json"));
    ASSERT_EQ(samples_.size(), 3u) << name;
    EXPECT_THAT(samples_[2].json, HasSubstr("\"q3\""));
    ASSERT_EQ(samples_[0].media.size(), 1u);
    EXPECT_EQ(samples_[0].media[0].name, (folder / name).string() + "@1024/0001.png");
    EXPECT_EQ(samples_[0].media[0].bytes->size(), 768u);
  }
}

TEST_F(Streams, a_sample_of_an_archive_names_its_media_as_they_stand_beside_it) {
  const auto tar = scratch_.write(
      "a.tar", tar_member("x/1.json", line_with_picture("1.left.png")) + tar_member("x/1.left.png", "PNG") +
                   tar_member("x/2.png", "PNG") + tar_member("x/2.json", line_with_picture("./2.png")) +
                   tar_member("x/3.json", line_with_picture("1.left.png")) + tar_member("x/4.json", line("no media")) +
                   tar_member("x/4.txt", "left alone") + tar_member("x/5.png", "PNG") + tar_end());
  const auto reasons = told(tar);
  ASSERT_EQ(reasons.size(), 5u);
  EXPECT_EQ(reasons[0], "a.tar:x/1.json");
  EXPECT_EQ(nlohmann::json::parse(samples_[0].json)["messages"][0]["content"][0]["path"],
            tar.string() + "@1024/x/1.left.png");
  EXPECT_EQ(reasons[1], "a.tar:x/2.json");
  EXPECT_THAT(reasons[2], HasSubstr("a.tar:x/3.json: image: '1.left.png' is no member of this sample"));
  EXPECT_EQ(reasons[3], "a.tar:x/4.json");
  EXPECT_EQ(reasons[4], "a.tar:x/5.json: no such member; expected one for each sample");
}

TEST_F(Streams, a_name_that_an_archive_repeats_is_that_of_each_samples_own_bytes) {
  // As `tar -r` and `tar -u` leave it, and archives of repeated keys.
  const auto tar =
      scratch_.write("a.tar", tar_member("1.json", line_with_picture("1.png")) + tar_member("1.png", "first") +
                                  tar_member("2.json", line("q")) + tar_member("1.json", line_with_picture("1.png")) +
                                  tar_member("1.png", "second, and longer") + tar_end());
  ASSERT_THAT(told(tar), ElementsAre("a.tar:1.json", "a.tar:2.json", "a.tar:1.json"));
  HeldMedia held;
  const HeldMedia::Lease first(held, samples_[0].media), second(held, samples_[2].media);
  const auto picture_of = [&](const FedSample& sample) {
    const auto found = held.find(nlohmann::json::parse(sample.json)["messages"][0]["content"][0]["path"]);
    return found ? *found : std::string("not held");
  };
  EXPECT_EQ(picture_of(samples_[0]), "first");
  EXPECT_EQ(picture_of(samples_[2]), "second, and longer");
}

TEST_F(Streams, names_that_are_not_utf8_are_written_out_and_their_samples_used) {
  // As archives of other decades have them: Latin-1.
  const auto tar =
      scratch_.write("\xFC.tar", tar_member("caf\xE9.json", line("q")) + tar_member("caf\xE9.txt", "left alone") +
                                     tar_member("2.json", line_with_picture("2.png")) + tar_member("2.png", "PNG") +
                                     tar_member("\xE9\x80.txt", "") + tar_end());
  EXPECT_THAT(told(tar), ElementsAre("\\xFC.tar:caf\\xE9.json", "\\xFC.tar:2.json",
                                     "\\xFC.tar:\\xE9\\x80.json: no such member; expected one for each sample"));
  EXPECT_EQ(nlohmann::json::parse(samples_[0].json)["id"], "\\xFC.tar:caf\\xE9.json");
  HeldMedia held;
  const HeldMedia::Lease lease(held, samples_[1].media);
  const auto found = held.find(nlohmann::json::parse(samples_[1].json)["messages"][0]["content"][0]["path"]);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(*found, "PNG");
}

TEST_F(Streams, names_that_lead_out_of_the_archive_are_refused_and_nothing_outside_is_read) {
  for (const char* name : {"../../secret.png", "/secret.png", "x/../../secret.png"}) {
    const std::string key = std::string(name).substr(0, std::string(name).rfind('.'));
    const auto reasons = told(scratch_.write(
        "a.tar", tar_member(key + ".json", line_with_picture("secret.png")) + tar_member(name, "PNG") + tar_end()));
    ASSERT_EQ(reasons.size(), 1u) << name;
    EXPECT_THAT(reasons[0], HasSubstr("leads out of the archive")) << name;
    EXPECT_TRUE(samples_[0].media.empty());
  }
  for (const char* path : {"../secret.png", "/etc/passwd", "file:///etc/passwd"}) {
    const auto reasons =
        told(scratch_.write("a.tar", tar_member("1.json", line_with_picture(path)) + tar_member("1.png", "PNG")));
    EXPECT_THAT(reasons.at(0), HasSubstr("is no member of this sample")) << path;
  }
}

TEST_F(Streams, broken_archives_end_the_stream_with_file_and_byte) {
  const std::string good = tar_member("1.json", line("q"));
  std::string flipped = good;
  flipped[3] ^= 1;
  const std::pair<std::string, const char*> cases[] = {
      {flipped, "broken.tar: at byte 512: no header of a tar archive"},
      {std::string(600, 'x'), "at byte 512: no header of a tar archive"},
      {good.substr(0, 300), "at byte 300: the archive ends early"},
      {good.substr(0, 600), "the archive ends early"},
      {good + good.substr(0, 100), "the archive ends early"},
      {tar_header("x", 2 << 20, 'x') + std::string(2 << 20, 'a'), "a pax header of 2097152 bytes"},
      {tar_header("x", 512, 'x') + std::string(512, '9'), "a broken pax header"},
      {tar_header("x", 30, 'x') + "30 size=99999999999999999999 \n" + std::string(482, '\0'),
       "a size that makes no sense"},
      {tar_header("s", 0, 'S'), "a sparse file"},
      {tar_header("1.png", uint64_t{1} << 29) + "short", "the archive ends early"},
      {tar_header("1.json", uint64_t{077777777777}), "the archive ends early"},
      {"\x1f\x8b" + std::string(600, '\0'), "no header of a tar archive"},
  };
  for (const auto& [bytes, reason] : cases)
    EXPECT_THAT(failure(bytes), AllOf(HasSubstr("broken.tar: at byte "), HasSubstr(reason)));
}

TEST_F(Streams, an_archive_may_be_empty_and_may_lack_its_end_blocks) {
  EXPECT_TRUE(told(scratch_.write("a.tar", "")).empty());
  EXPECT_TRUE(told(scratch_.write("a.tar", tar_end())).empty());
  EXPECT_EQ(told(scratch_.write("a.tar", tar_member("1.json", line("q")))).size(), 1u);
}

TEST_F(Streams, what_is_skipped_is_as_long_as_what_is_read) {
  std::string tar;
  for (int i = 0; i < 6; ++i)
    tar += tar_member(std::to_string(i) + ".json", i == 2 ? "broken" : line("q" + std::to_string(i))) +
           tar_member(std::to_string(i) + ".png", std::string(700 * i, 'x'));
  config_ = job({scratch_.write("a.tar", tar)});
  for (int skipped = 0; skipped <= 6; ++skipped) {
    const auto feed = StreamSet(config_).open(0, never);
    for (int i = 0; i < skipped; ++i) EXPECT_TRUE(feed->skip());
    const auto next = feed->next();
    ASSERT_EQ(next.has_value(), skipped < 6);
    if (next) {
      EXPECT_EQ(next->place, "a.tar:" + std::to_string(skipped) + ".json");
    } else {
      EXPECT_FALSE(feed->skip());
    }
  }
}

// Writes to a pipe from a thread, as whatever feeds a run does.
class PipeWriter {
 public:
  PipeWriter(const std::filesystem::path& path, std::string bytes) {
    ::signal(SIGPIPE, SIG_IGN);  // a reader may leave first
    thread_ = std::thread([path, bytes = std::move(bytes)] { std::ofstream(path, std::ios::binary) << bytes; });
  }
  ~PipeWriter() { thread_.join(); }

 private:
  std::thread thread_;
};

TEST_F(Streams, a_pipe_of_lines_is_read_like_the_file) {
  const std::string text = "\xEF\xBB\xBF" + line("one") + "\r\n\n  \n" + "nonsense\n" + line("two") + "\n{\"a\":1}\n" +
                           line(std::string(200'000, 'x')) + "\n" + line("last");
  const std::filesystem::path pipe = scratch_.folder() / "feed";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const PipeWriter writer(pipe, text);
  const auto reasons = told(pipe);
  ASSERT_EQ(reasons.size(), 6u);
  EXPECT_EQ(reasons[0], "feed:1");
  EXPECT_THAT(reasons[1], HasSubstr("feed:4: not valid JSON"));
  EXPECT_EQ(reasons[2], "feed:5");
  EXPECT_EQ(reasons[3], "feed:6: expected \"messages\", \"conversations\" or \"text\"");
  EXPECT_EQ(reasons[4], "feed:7");
  EXPECT_EQ(reasons[5], "feed:8");
  EXPECT_THAT(samples_[5].json, HasSubstr("\"last\""));
}

TEST_F(Streams, a_line_without_end_is_refused_and_the_next_one_read) {
  const std::filesystem::path pipe = scratch_.folder() / "feed";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const PipeWriter writer(pipe, std::string((64 << 20) + 5, 'x') + "\n" + line("good") + "\n");
  EXPECT_THAT(told(pipe), ElementsAre(HasSubstr("feed:1: a line of 67108869 bytes; expected at most"), "feed:2"));
}

TEST_F(Streams, waiting_for_a_pipe_ends_when_the_run_does) {
  const std::filesystem::path pipe = scratch_.folder() / "feed";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  config_ = job({pipe});
  std::atomic<bool> stopped = false;
  const auto feed = StreamSet(config_).open(0, [&] { return stopped.load(); });
  auto waiting = std::async(std::launch::async, [&] { return feed->next().has_value(); });
  EXPECT_EQ(waiting.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  stopped = true;
  EXPECT_THROW(waiting.get(), Error);
}

TEST_F(Streams, jobs_that_a_stream_cannot_do_are_refused) {
  const auto refusal = [](const JobConfig& config) {
    try {
      const StreamSet streams(config);
      return std::string("accepted");
    } catch (const Error& error) {
      EXPECT_EQ(error.exit(), Exit::kConfig);
      return std::string(error.what());
    }
  };
  const auto tar = scratch_.write("a.tar", tar_end()), file = scratch_.write("b.jsonl", line("q"));
  EXPECT_EQ(refusal(job({tar, tar})), "accepted");
  EXPECT_THAT(refusal(job({tar, file})), HasSubstr("b.jsonl is no pipe and no .tar, but " + tar.string() + " is"));
  JobConfig epochs = job({tar});
  epochs.job.steps = 0;
  epochs.job.epochs = 1;
  EXPECT_THAT(refusal(epochs), AllOf(HasSubstr("is a stream, which is read once"), HasSubstr("set job.steps")));
  EXPECT_TRUE(is_streamed(job({tar}).data));
  EXPECT_FALSE(is_streamed(job({file}).data));
  EXPECT_FALSE(is_streamed(job({scratch_.folder()}).data));
}

TEST(HeldMedia, pictures_and_videos_are_read_from_memory_as_from_files_while_they_are_held) {
  const std::string picture = read_file(media_folder() / "jpeg_exif6.jpg"),
                    video = read_file(media_folder() / "h264.mp4");
  MediaReader reader("/", 1'000'000);
  const auto bytes = [](const std::string& text) { return std::make_shared<const std::string>(text); };
  {
    const HeldMedia::Lease lease(reader.held(), {{"/a.tar/p.jpg", bytes(picture)},
                                                 {"/a.tar/v.mp4", bytes(video)},
                                                 {"/a.tar/e.png", bytes("")},
                                                 {"/a.tar/t.png", bytes("text")}});
    const HeldMedia::Lease again(reader.held(), {{"/a.tar/p.jpg", bytes(picture)}});
    EXPECT_EQ(reader.probe("/a.tar/p.jpg", LF_MEDIA_IMAGE).width, 23);
    EXPECT_EQ(reader.probe("/a.tar/v.mp4", LF_MEDIA_VIDEO).frames, 60);
    const MediaReader files(media_folder(), 1'000'000);
    const std::vector<int64_t> frames{3, 40};
    lf_tensor held = reader.decode_video("/a.tar/v.mp4", frames), stored = files.decode_video("h264.mp4", frames);
    EXPECT_EQ(std::memcmp(held.data, stored.data, static_cast<size_t>(2 * 48 * 32 * 3)), 0);
    sdk::release(held);
    sdk::release(stored);
    for (const auto& [name, reason] : {std::pair{"/a.tar/e.png", "/a.tar/e.png: the file is empty"},
                                       {"/a.tar/t.png", "/a.tar/t.png: not a JPEG, PNG or WebP picture"}}) {
      try {
        reader.probe(name, LF_MEDIA_IMAGE);
        ADD_FAILURE() << name;
      } catch (const sdk::Failure& failure) {
        EXPECT_THAT(failure.what(), testing::StartsWith(reason));
      }
    }
    try {
      reader.probe("/a.tar/t.png", LF_MEDIA_VIDEO);
      ADD_FAILURE();
    } catch (const sdk::Failure& failure) {
      EXPECT_THAT(failure.what(), testing::StartsWith("/a.tar/t.png: not a video"));
    }
  }
  EXPECT_THROW(reader.probe("/a.tar/p.jpg", LF_MEDIA_IMAGE), sdk::Failure);
}

}  // namespace
}  // namespace lf
