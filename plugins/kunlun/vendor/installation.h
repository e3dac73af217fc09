// Where the vendor's libraries lie. All of one process come from one installation.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace lf::kunlun {

// A variable of the environment, or nothing.
using Environment = std::function<std::optional<std::string>(const char* name)>;

struct Installation {
  std::filesystem::path root;         // resolved; every library lies under it
  std::filesystem::path runtime;      // libxpurt.so
  std::filesystem::path management;   // libxpuml.so; may be empty
  std::filesystem::path collectives;  // libbkcl.so; may be empty
  std::filesystem::path shim;         // liblf_bkcl_shim.so beside one of them; may be empty
};

// LF_KUNLUN_HOME alone where it is set, else the usual places. Nothing found: nothing returned, and `searched` says
// where it was looked for.
std::optional<Installation> find_installation(const Environment& environment, std::string& searched);

}  // namespace lf::kunlun
