// A JSON object read field by field: each is checked where it is read, and what nobody read can be named.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "family/findings.h"

namespace lf::family {

// Mistakes are "PLACE.FIELD: expected ..., got ...". With findings they are collected there and reading goes on, with
// `fallback` for the value; without, the first is thrown as sdk::Failure(LF_E_INVALID).
//
// Three kinds of fields, in every family's configuration:
//   size(...)                 decides a shape, or how much is computed: must be stated, whatever the reference's class
//                             would take for it
//   usual(...)                a number of the maths that published files may leave out: taken as the reference's class
//                             has it, and told
//   positive(...) and others  follows from other fields, or says by its absence that something is off
class JsonFields {
 public:
  // `place` is how messages call the object: "config.json: text_config". `object` and `findings` outlive this. Throws
  // for what is no object.
  JsonFields(const nlohmann::json& object, std::string place, Findings* findings = nullptr);
  // Of an object inside, which is called `place` in full.
  JsonFields inside(const nlohmann::json& object, std::string place) const;

  // Null counts as absent everywhere.
  bool has(const std::string& name) const;
  // Products of a few sizes of at most kMostSize do not overflow, and none of them takes long to be refused later.
  static constexpr int64_t kMostSize = int64_t{1} << 30, kMostLayers = 4096, kMostExperts = 1 << 16;
  int64_t size(const std::string& name, int64_t most = kMostSize);  // 1 where it is wrong or absent
  // `value`, to be the fallback of the read that follows.
  template <typename T>
  T usual(const std::string& name, T value) const {
    if (findings_ != nullptr && !has(name)) findings_->took(place_, name, nlohmann::json(value).dump());
    return value;
  }
  int64_t positive(const std::string& name, int64_t fallback, int64_t most = kMostSize);
  int64_t within(const std::string& name, int64_t least, int64_t most, int64_t fallback);
  int64_t at_least(const std::string& name, int64_t least, int64_t fallback);  // of what is no size: up to 2^40
  double positive_number(const std::string& name, double fallback, double most = std::numeric_limits<double>::max());
  double number(const std::string& name, double fallback);
  bool flag(const std::string& name, bool fallback);
  std::string text(const std::string& name, const std::string& fallback);
  // Of at most kMostListed in size, so that they can be added up.
  static constexpr int64_t kMostListed = int64_t{1} << 40;
  std::vector<int64_t> integers(const std::string& name, std::vector<int64_t> fallback);
  std::optional<int64_t> integer(const std::string& name);
  // Null where absent.
  const nlohmann::json* object(const std::string& name);

  // A mistake of `name` where it and `other`, both sizes, make more than kMostSize of something together.
  void together(const std::string& name, int64_t value, const char* other, int64_t other_value) const;
  // The field must be absent, null, or one of `neutral`; otherwise refused because `what`.
  void only(const std::string& name, const std::vector<nlohmann::json>& neutral, const std::string& what);
  void ignore(std::initializer_list<const char*> names);
  // A mistake for each field that was neither read nor ignored: "PLACE.FIELD: WHY".
  void refuse_unread(const std::string& why) const;
  // Of a model's configuration: an unread field may change the maths, and those that are set to something are
  // refused. Returned are those that are switched off (false, 0, "", empty), which say what files without them say.
  std::vector<std::string> unread_but_off(const std::string& family) const;

  // A mistake of the field, unless it or one of `others`, from which it would follow, is known to be wrong.
  void refuse(const std::string& name, const std::string& expected,
              std::initializer_list<const char*> others = {}) const;
  // The same in the caller's own words, a whole line.
  void complain(const std::string& name, const std::string& text, std::initializer_list<const char*> others = {}) const;
  bool sound(std::initializer_list<const char*> names) const;
  const std::string& place() const { return place_; }

 private:
  const nlohmann::json* find(const std::string& name);

  const nlohmann::json& object_;
  std::string place_;
  Findings* findings_;
  std::set<std::string> known_;
};

}  // namespace lf::family
