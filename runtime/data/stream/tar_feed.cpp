#include <map>

#include <fmt/format.h>

#include "data/conversation.h"
#include "data/path_text.h"
#include "data/sample_line.h"
#include "data/stream/sample_feed.h"
#include "data/stream/tar_reader.h"

namespace lf {
namespace {

// Of one sample with its media, in memory at once.
constexpr uint64_t kMaxSampleBytes = 1 << 30;

// "a/b.c/0001" of "a/b.c/0001.left.png".
std::string_view key_of(std::string_view name) {
  const size_t slash = name.rfind('/');
  return name.substr(0, name.find('.', slash == name.npos ? 0 : slash + 1));
}

// As the JSON beside it names it. Nothing for names that lead out of the archive, as no honest archive has them.
std::optional<std::string> normal_name(const std::string& name) {
  const std::filesystem::path path = std::filesystem::path(name).lexically_normal();
  if (path.is_absolute() || path.empty() || *path.begin() == ".." || name.find('\0') != name.npos) return std::nullopt;
  return path.string();
}

// What the members of one sample are held as.
using MemberNames = std::map<std::string, std::string>;

// The members of one sample, named as they stand beside its KEY.json.
class Beside final : public MediaPlaces {
 public:
  Beside(const std::string& json_name, const MemberNames& held)
      : folder_(std::filesystem::path(json_name).parent_path()), held_(held) {}

  std::string resolve(std::string path, std::string_view field) const override {
    path = local_path(std::move(path), field);
    const auto found = held_.find(normal_name((folder_ / path).string()).value_or(""));
    if (found == held_.end())
      throw FieldError(std::string(field),
                       fmt::format("'{}' is no member of this sample; expected it beside its .json, "
                                   "with the same name up to the first dot",
                                   path.substr(0, 200)));
    return found->second;
  }

 private:
  std::filesystem::path folder_;
  const MemberNames& held_;
};

class TarFeed final : public SampleFeed {
 public:
  TarFeed(const std::filesystem::path& path, std::string name, const DataSection& options,
          std::function<bool()> stopped)
      : bytes_(path, std::move(stopped)),
        members_(bytes_),
        options_(options),
        archive_(readable(path.string())),
        name_(std::move(name)) {}

  std::optional<FedSample> next() override {
    if (!begin()) return std::nullopt;
    const std::string key(key_of(member_->name));
    FedSample out{.place = fmt::format("{}:{}.json", name_, readable(key)), .json = {}, .media = {}, .bad = {}};
    std::optional<std::string> text;
    MemberNames held;
    uint64_t total = 0;
    const auto refuse = [&](const std::string& reason) {
      if (out.bad.empty()) out.bad = fmt::format("{}: {}", out.place, reason);
    };
    for (; member_ && key_of(member_->name) == key; member_ = members_.next()) {
      const bool is_json = member_->name.size() == key.size() + 5 && member_->name.ends_with(".json");
      const std::optional<std::string> name = normal_name(member_->name);
      total += member_->size;
      if (!name)
        refuse(fmt::format("member {} leads out of the archive", readable(member_->name.substr(0, 200))));
      else if (total > kMaxSampleBytes)
        refuse(fmt::format("a sample of {} bytes and more; expected at most {}", total, kMaxSampleBytes));
      else if (is_json && member_->size > kMaxLineBytes)
        out.bad = too_long_a_line(out.place, member_->size).what();
      else if (is_json ? text.has_value() : held.contains(*name))
        refuse(fmt::format("member {} twice", readable(member_->name)));
      else if (is_json)
        text = members_.read();
      else
        out.media.push_back(
            {held.emplace(*name, fmt::format("{}@{}/{}", archive_, member_->header, readable(*name))).first->second,
             std::make_shared<const std::string>(members_.read())});
    }
    if (!text) refuse("no such member; expected one for each sample");
    if (out.bad.empty()) {
      const Beside places(normal_name(key).value_or(""), held);
      read_sample(*text, options_, places, out);
    }
    if (!out.bad.empty()) out.media.clear();
    return out;
  }

  bool skip() override {
    if (!begin()) return false;
    for (const std::string key(key_of(member_->name)); member_ && key_of(member_->name) == key;)
      member_ = members_.next();
    return true;
  }

 private:
  bool begin() {
    if (!begun_) member_ = members_.next();
    begun_ = true;
    return member_.has_value();
  }

  ByteStream bytes_;
  TarReader members_;
  const DataSection& options_;
  std::string archive_, name_;
  std::optional<TarMember> member_;  // the next one, not read yet
  bool begun_ = false;
};

}  // namespace

std::unique_ptr<SampleFeed> open_tar_feed(const std::filesystem::path& path, const std::string& name,
                                          const DataSection& options, std::function<bool()> stopped) {
  return std::make_unique<TarFeed>(path, name, options, std::move(stopped));
}

}  // namespace lf
