// Where the plugin's code is right now, in a page that the watching process can read after a crash.
#pragma once

#include <string>
#include <string_view>

namespace lf {

class Breadcrumb {
 public:
  Breadcrumb();  // a page shared with the children forked from here on. Throws lf::Error(kUnavailable).
  ~Breadcrumb();
  Breadcrumb(const Breadcrumb&) = delete;
  Breadcrumb& operator=(const Breadcrumb&) = delete;

  void enter(std::string_view function) noexcept;  // "lf_device_api.copy"
  void leave() noexcept;                           // back in the kit
  void clear() noexcept;                           // before a case: no function, no verdict

  // How a case ended, as its own process tells it.
  void say(char verdict, std::string_view detail) noexcept;

  std::string function() const;  // empty: in the kit
  char verdict() const;          // 0: the case did not come to its end
  std::string detail() const;

 private:
  struct Page;
  Page* page_;
};

}  // namespace lf
