#include "launch/final_status.h"

#include <ctime>
#include <fstream>

#include <nlohmann/json.hpp>

#include "core/whole_file.h"

namespace lf {

void write_final_status(const std::filesystem::path& run_directory, pid_t leader, const std::string& state,
                        bool not_the_leaders) noexcept {
  try {
    using Json = nlohmann::ordered_json;
    const std::filesystem::path file = run_directory / "status.json";
    Json status = Json::parse(std::ifstream(file), nullptr, false);
    if (!status.is_object() || status.value("process", 0) != leader) return;
    const std::string said = status.value("state", "");
    if (said != "running" && !(not_the_leaders && said.starts_with("failed"))) return;
    status["state"] = state;
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    gmtime_r(&now, &parts);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    status["updated"] = text;
    (void)replace_file(file, status.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  } catch (...) {  // as where it cannot be written: the job has ended already, nothing is lost but this word
  }
}

}  // namespace lf
