// A JSON object read field by field: each is checked where it is read, and what nobody read can be named.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace lf::family {

// Errors are sdk::Failure(LF_E_INVALID) "PLACE.FIELD: expected ..., got ...".
class JsonFields {
 public:
  // `place` is how messages call the object: "config.json: text_config". `object` outlives this.
  JsonFields(const nlohmann::json& object, std::string place);

  // Null counts as absent everywhere.
  bool has(const std::string& name) const;
  // Products of a few sizes of at most kMostSize do not overflow, and none of them takes long to be refused later.
  static constexpr int64_t kMostSize = int64_t{1} << 30, kMostLayers = 4096, kMostExperts = 1 << 16;
  int64_t positive(const std::string& name, int64_t fallback, int64_t most = kMostSize);
  int64_t within(const std::string& name, int64_t least, int64_t most, int64_t fallback);
  int64_t at_least(const std::string& name, int64_t least, int64_t fallback);  // of what is no size: up to 2^40
  double positive_number(const std::string& name, double fallback);
  double number(const std::string& name, double fallback);
  bool flag(const std::string& name, bool fallback);
  std::string text(const std::string& name, const std::string& fallback);
  std::vector<int64_t> integers(const std::string& name, std::vector<int64_t> fallback);
  std::optional<int64_t> integer(const std::string& name);
  // Null where absent.
  const nlohmann::json* object(const std::string& name);

  // The field must be absent, null, or one of `neutral`; otherwise refused because `what`.
  void only(const std::string& name, const std::vector<nlohmann::json>& neutral, const std::string& what);
  void ignore(std::initializer_list<const char*> names);
  // Full names of fields that were neither read nor ignored.
  std::vector<std::string> unread() const;
  // Of a model's configuration: an unread field may change the maths, and the first that is set to something is
  // refused. Returned are those that are switched off (false, 0, "", empty), which say what files without them say.
  std::vector<std::string> unread_but_off(const std::string& family) const;

  [[noreturn]] void refuse(const std::string& name, const std::string& expected) const;
  const std::string& place() const { return place_; }

 private:
  const nlohmann::json* find(const std::string& name);

  const nlohmann::json& object_;
  std::string place_;
  std::set<std::string> known_;
};

}  // namespace lf::family
