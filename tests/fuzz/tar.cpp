// A tar archive of samples: whatever is in it, names stay inside, none is given to two media and all are UTF-8; reading
// and skipping see the same number.
#include <set>

#include "core/error.h"
#include "data/path_text.h"
#include "data/stream/sample_feed.h"
#include "fuzz/target.h"

namespace {

// How many samples, and whether the archive broke after them.
std::pair<int, bool> count(const std::string& path, bool skip) {
  static const lf::DataSection kOptions;
  int samples = 0;
  std::set<std::string> names;
  try {
    const auto feed = lf::open_tar_feed(path, "a.tar", kOptions, [] { return false; });
    for (;; ++samples) {
      if (skip) {
        if (!feed->skip()) return {samples, false};
        continue;
      }
      const auto fed = feed->next();
      if (!fed) return {samples, false};
      if (lf::readable(fed->place) != fed->place) __builtin_trap();
      for (const lf::StreamedMedium& medium : fed->media)
        if (!medium.name.starts_with(path + "@") || medium.name.find("/../") != medium.name.npos ||
            lf::readable(medium.name) != medium.name || !names.insert(medium.name).second)
          __builtin_trap();
    }
  } catch (const lf::Error& error) {
    lf::fuzz::check_message(error.what());
    return {samples, true};
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const lf::fuzz::MemoryFile file(lf::fuzz::text_of(data, size));
  if (count(file.path(), false) != count(file.path(), true)) __builtin_trap();
  return 0;
}
