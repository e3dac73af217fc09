// What reading a model's configuration and options found, told in one go: mistakes, and values that no file states.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lf/plugin_api/host.h"

namespace lf::family {

// One thread at a time.
class Findings {
 public:
  // `text`: one line, "config.json: vision.depth: expected ..., got ...". What has been said of a field makes it
  // unsound, and more of it would not help; so would what follows from it alone.
  void add(const std::string& field, const std::string& text);
  bool sound(const std::string& field) const { return !unsound_.contains(field); }
  bool empty() const { return mistakes_.empty(); }

  // A number of the maths that `place` leaves out and published files of the family may leave out too.
  void took(const std::string& place, const std::string& name, const std::string& value);
  // One more remark, a whole line.
  void remark(const std::string& text) { remarks_.push_back(text); }

  // All of `other`, with what `renamed` makes of each text: empty, it is left out.
  void take(const Findings& other, const std::function<std::string(const std::string& text)>& renamed);

  // All mistakes as one sdk::Failure(LF_E_INVALID), a line each.
  void refuse_if_any() const;
  // Logs what was taken, a line for each place, and the remarks, as warnings.
  void tell(const lf_host* host) const;

 private:
  struct Taken {
    std::string place;
    std::vector<std::string> values;  // "rope_theta 10000"
  };
  std::vector<std::string> mistakes_, remarks_;
  std::vector<Taken> taken_;
  std::set<std::string> unsound_;
};

// read(findings), of which nothing may be wrong.
template <typename Read>
auto read_whole(Read&& read) {
  Findings findings;
  auto value = std::forward<Read>(read)(findings);
  findings.refuse_if_any();
  return value;
}

}  // namespace lf::family
