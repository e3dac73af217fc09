#include "metrics/run_file.h"

#include "core/error.h"
#include "core/whole_file.h"

namespace lf {

void replace_in_run(const std::filesystem::path& path, std::string_view content) {
  if (const std::error_code error = replace_file(path, content))
    fail(Exit::kIo, "{}: cannot be written: {}; make room, and check the run directory", path.string(),
         error.message());
}

}  // namespace lf
