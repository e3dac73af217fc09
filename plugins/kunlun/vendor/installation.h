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
  std::string without_collectives;    // where there is no libbkcl.so: the roots with a runtime, which lack it
};

// LF_KUNLUN_HOME alone where it is set, else the usual places below `system`: the first that holds runtime and
// collectives, or else the first that holds a runtime, since a vendor's packages may lie in sibling folders. Nothing
// found: nothing returned, and `searched` says where it was looked for.
std::optional<Installation> find_installation(const Environment& environment, std::string& searched,
                                              const std::filesystem::path& system = "/");

}  // namespace lf::kunlun
