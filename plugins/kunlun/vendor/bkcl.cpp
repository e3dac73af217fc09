#include "vendor/bkcl.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>
#include <optional>

#include "hardware/library.h"
#include "lf/plugin_sdk/guard.hpp"
#include "vendor/mangled_names.h"
#include "vendor/runtime.h"

namespace lf::kunlun {
namespace fs = std::filesystem;
namespace {

constexpr const char* kNextMove =
    "build plugins/kunlun/shim/bkcl_shim.cpp on the machine that has bkcl.h (its first lines say how) and put "
    "liblf_bkcl_shim.so beside libbkcl.so";

[[noreturn]] void refuse(const std::string& why) { throw sdk::Failure(LF_E_UNSUPPORTED, "kunlun collectives: " + why); }

std::map<std::string, int64_t> parse_numbers(const std::string& text) {
  std::map<std::string, int64_t> numbers;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string pair = text.substr(at, end - at);
    const size_t equals = pair.find('=');
    int64_t value = 0;
    const char* digits = equals == pair.npos ? nullptr : pair.data() + equals + 1;
    if (digits == nullptr || std::from_chars(digits, pair.data() + pair.size(), value).ptr != pair.data() + pair.size())
      refuse("LF_KUNLUN_BKCL_NUMBERS: expected NAME=NUMBER, got \"" + pair + "\"");
    numbers[pair.substr(0, equals)] = value;
    at = end + 1;
  }
  return numbers;
}

void set_numbers(lf_bkcl& table, const std::string& text) {
  const auto numbers = parse_numbers(text);
  std::string missing;
  const auto set = [&](const char* name, auto& field) {
    const auto found = numbers.find(name);
    if (found == numbers.end())
      missing += (missing.empty() ? "" : ", ") + std::string(name);
    else
      field = static_cast<std::remove_reference_t<decltype(field)>>(found->second);
  };
  set("BKCL_UNIQUE_ID_BYTES", table.id_bytes);
  set("BKCL_SUCCESS", table.success);
  set("BKCL_INVALID_ARGUMENT", table.invalid_argument);
  set("BKCL_RUNTIME_ERROR", table.runtime_error);
  set("BKCL_SYSTEM_ERROR", table.system_error);
  set("BKCL_INTERNAL_ERROR", table.internal_error);
  set("BKCL_UINT8", table.uint8);
  set("BKCL_INT32", table.int32);
  set("BKCL_INT64", table.int64);
  set("BKCL_FLOAT16", table.float16);
  set("BKCL_FLOAT", table.float32);
  set("BKCL_FLOAT64", table.float64);
  set("BKCL_BFLOAT16", table.bfloat16);
  set("BKCL_ADD", table.add);
  set("BKCL_PRODUCT", table.product);
  set("BKCL_MIN", table.min);
  set("BKCL_MAX", table.max);
  if (!missing.empty()) refuse("LF_KUNLUN_BKCL_NUMBERS lacks " + missing + "; take them from the vendor's bkcl.h");
}

// Functions by their plain names, or by the one mangled name that means them.
std::string set_functions(lf_bkcl& table, const hardware::Library& library, const fs::path& root) {
  std::optional<std::vector<std::string>> exported;
  std::string missing;
  bool mangled = false;
  const auto find = [&](const char* plain, auto& function) {
    if (library.find(plain, function, root)) return true;
    if (!exported) exported = exported_functions(library.path());
    const auto name = find_mangled(*exported, plain);
    mangled |= name.has_value();
    return name && library.find(*name, function, root);
  };
  const auto need = [&](const char* plain, auto& function) {
    if (!find(plain, function)) missing += (missing.empty() ? "" : ", ") + std::string(plain);
  };
  need("bkcl_get_unique_id", table.get_unique_id);
  need("bkcl_init_rank", table.init_rank);
  need("bkcl_destroy_context", table.destroy_context);
  need("bkcl_comm_count", table.comm_count);
  need("bkcl_group_start", table.group_start);
  need("bkcl_group_end", table.group_end);
  need("bkcl_all_reduce", table.all_reduce);
  need("bkcl_broadcast", table.broadcast);
  need("bkcl_all_gather", table.all_gather);
  need("bkcl_reduce_scatter", table.reduce_scatter);
  need("bkcl_send", table.send);
  need("bkcl_recv", table.recv);
  find("bkcl_comm_abort", table.comm_abort);
  find("bkcl_all_to_all_v", table.all_to_all_v);
  if (!missing.empty())
    refuse(library.path().string() + " has neither a C nor a C++ function named " + missing + "; " + kNextMove);
  return mangled ? "C++ names" : "C names";
}

Bkcl open_shim(const fs::path& path, const fs::path& root) {
  const hardware::Library library(path);
  const lf_bkcl* (*entry)() = nullptr;
  if (!library.find(LF_BKCL_SHIM_ENTRY, entry, path.parent_path()))
    refuse(path.string() + " is no shim of this plugin's version (no " LF_BKCL_SHIM_ENTRY "); build it again");
  Bkcl bkcl{{}, "shim " + path.string()};
  std::memcpy(&bkcl.table, entry(), std::min<size_t>(sizeof bkcl.table, entry()->size));
  const auto foreign = hardware::foreign_copies(vendor_library_names(), root);
  if (!foreign.empty())
    refuse("the shim brought " + foreign.front().string() + ", expected " + (root / "libbkcl.so").string());
  return bkcl;
}

}  // namespace

Bkcl open_bkcl(const Installation& installation, const Environment& environment) {
  if (installation.collectives.empty()) refuse("there is no libbkcl.so under " + installation.without_collectives);
  const hardware::Library library(
      installation.collectives);  // first, so that the shim's own need of it finds this copy
  if (const auto named = environment("LF_KUNLUN_BKCL_SHIM")) {
    if (std::error_code ignored; !fs::is_regular_file(*named, ignored))
      refuse("LF_KUNLUN_BKCL_SHIM names no file: " + *named);
    return open_shim(fs::canonical(*named), installation.root);
  }
  if (!installation.shim.empty()) return open_shim(installation.shim, installation.root);
  Bkcl bkcl{};
  bkcl.how = set_functions(bkcl.table, library, installation.root);
  const auto numbers = environment("LF_KUNLUN_BKCL_NUMBERS");
  if (!numbers)
    refuse(installation.collectives.string() + " has the functions (" + bkcl.how +
           ") but not the numbers of its enumerations; " + kNextMove);
  set_numbers(bkcl.table, *numbers);
  bkcl.table.size = sizeof bkcl.table;
  return bkcl;
}

}  // namespace lf::kunlun
