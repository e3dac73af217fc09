#include "plugins/inspect.h"

#include <algorithm>
#include <array>
#include <map>

#include <fmt/ranges.h>

#include "plugins/dependencies.h"
#include "plugins/linkage.h"
#include "plugins/lock.h"
#include "plugins/parts.h"
#include "plugins/processor.h"
#include "plugins/refusal.h"
#include "plugins/sha256.h"

namespace lf {
namespace {

namespace fs = std::filesystem;

class Page {
 public:
  void line(std::string_view name, std::string_view value) {
    text += name == last_ ? fmt::format("{:13}{}\n", "", value) : fmt::format("{:13}{}\n", name, value);
    last_ = name;
  }
  std::string text;

 private:
  std::string last_;
};

std::string lock_state(const fs::path& folder, const std::string& locked_sha256, const std::string& sha256) {
  if (locked_sha256.empty()) return fs::exists(folder / kLockFile) ? "refused by plugins.lock" : "no plugins.lock";
  return locked_sha256 == sha256 ? "as locked" : "its bytes are not those locked";
}

// "PATH, sha256 HASH, as locked".
void tell_parts(Page& page, const Candidate& candidate) {
  for (const PluginPart& part : candidate.parts) {
    const std::string sha256 = sha256_of_file(part.path);
    page.line("part", fmt::format("{}, sha256 {}, {}", part.path.string(), sha256,
                                  lock_state(candidate.path.parent_path(), part.locked_sha256, sha256)));
  }
}

// judge_plugin leaves the bytes to whoever opens the file; here nobody will.
void judge_bytes(Candidate& candidate, const std::string& sha256) {
  if (candidate.refusal || candidate.locked_sha256.empty()) return;
  try {
    require_locked_sha256(sha256, candidate.path.parent_path(), candidate.locked_sha256);
    require_parts_as_judged(candidate);
  } catch (const Refusal& refusal) {
    candidate.refusal = refusal.what();
  }
}

std::string lane_of(const Manifest& manifest, const PluginHost& host) {
  if (manifest.torch == "none") return "none: no LibTorch, loads into any core";
  return fmt::format(
      "exact: LibTorch {}, {}", manifest.torch,
      manifest.torch == host.torch_build ? "this lfrun's" : fmt::format("not this lfrun's {}", host.torch_build));
}

// LibTorch's C++ has no stable ABI; its C shim (aoti_torch_*, torch_*) has.
const char* class_of(const Symbols::Undefined& symbol) {
  const std::string_view name = symbol.name;
  if (name.starts_with("aoti_torch_") || name.starts_with("torch_")) return "LibTorch, stable C";
  if (name.starts_with("_Z"))
    for (const std::string_view space : {"2at", "3c10", "5torch", "4c10d"})
      if (const size_t at = name.find(space); at != name.npos && at < 8) return "LibTorch, C++";
  if (symbol.version.starts_with("GLIBCXX") || symbol.version.starts_with("CXXABI") ||
      symbol.version.starts_with("GCC"))
    return "C++ runtime";
  if (symbol.version.starts_with("GLIBC")) return "C library";
  return symbol.weak ? "weak" : "other";
}

// "GLIBC_2.34": family and numbers.
std::pair<std::string, std::vector<int>> version_of(const std::string& text) {
  const size_t mark = text.find('_');
  std::vector<int> numbers;
  for (size_t at = mark == text.npos ? text.size() : mark + 1; at < text.size();) {
    const size_t end = std::min(text.find('.', at), text.size());
    int number = 0;
    for (size_t i = at; i < end && text[i] >= '0' && text[i] <= '9'; ++i) number = number * 10 + (text[i] - '0');
    numbers.push_back(number);
    at = end + 1;
  }
  return {text.substr(0, mark), numbers};
}

void tell_symbols(Page& page, const Symbols& symbols) {
  const bool as_expected = symbols.exported.size() == 1 && symbols.exported[0] == "lf_plugin_entry";
  page.line("exports",
            as_expected ? "lf_plugin_entry"
                        : fmt::format("{}; expected lf_plugin_entry alone",
                                      symbols.exported.empty() ? std::string("nothing")
                                                               : fmt::format("{}", fmt::join(symbols.exported, ", "))));
  if (symbols.unique > 0)
    page.line("exports", fmt::format("{} of them are unique in the whole process (STB_GNU_UNIQUE)", symbols.unique));

  std::map<std::string, size_t> classes;
  std::map<std::string, std::pair<std::vector<int>, std::string>> floors;
  std::vector<std::string> others;
  for (const Symbols::Undefined& symbol : symbols.undefined) {
    const std::string kind = class_of(symbol);
    ++classes[kind];
    if (kind == "other") others.push_back(symbol.name);
    if (symbol.version.empty()) continue;
    const auto [family, numbers] = version_of(symbol.version);
    auto& floor = floors[family];
    floor = std::max(floor, {numbers, symbol.version});
  }
  for (const auto& [kind, count] : classes) page.line("undefined", fmt::format("{:5} {}", count, kind));
  constexpr size_t kMostNames = 12;
  if (!others.empty()) {
    const size_t shown = std::min(others.size(), kMostNames);
    page.line("undefined", fmt::format("      other: {}{}",
                                       fmt::join(others.begin(), others.begin() + static_cast<long>(shown), ", "),
                                       others.size() > shown ? ", ..." : ""));
  }
  std::vector<std::string> versions;
  for (const auto& [family, floor] : floors)
    if (family == "GLIBC" || family == "GLIBCXX" || family == "CXXABI") versions.push_back(floor.second);
  page.line("floors", versions.empty() ? "none" : fmt::format("{}", fmt::join(versions, ", ")));
}

void tell_libraries(Page& page, const fs::path& file, const std::string& library_path) {
  const std::vector<Dependency> libraries = dependencies_of(file, library_path);
  if (libraries.empty()) page.line("libraries", "none");
  for (const Dependency& library : libraries)
    page.line("libraries",
              library.path.empty()
                  ? fmt::format("{} MISSING (needed by {})", one_line(library.name), one_line(library.needed_by))
                  : fmt::format("{} => {}", one_line(library.name), one_line(library.path.string())));
  if (!library_path.empty()) page.line("libraries", "LD_LIBRARY_PATH is set and is searched for these");
}

}  // namespace

Inspection inspect_plugin(const fs::path& file, const PluginHost& host, const std::string& library_path) {
  Inspection result;
  Candidate candidate = judge_plugin(file, host);
  Page page;
  page.line("file", candidate.path.string());
  try {
    const OpenFile opened = open_trusted(candidate.path);
    const std::string sha256 = sha256_of(opened);
    page.line("sha256", sha256);
    page.line("lock", lock_state(candidate.path.parent_path(), candidate.locked_sha256, sha256));
    judge_bytes(candidate, sha256);
    const ElfFile elf(opened);
    if (candidate.manifest) {
      const Manifest& m = *candidate.manifest;
      page.line("plugin", fmt::format("{} {} {}, ABI {}", kind_word(m.kind), m.id, m.version, m.abi));
      page.line("offers", fmt::format("{}", fmt::join(m.interfaces, ", ")));
      page.line("requires",
                m.required_extensions.empty() ? "nothing" : fmt::format("{}", fmt::join(m.required_extensions, ", ")));
      page.line("lane", lane_of(m, host));
      tell_parts(page, candidate);
      page.line("compiled", m.compiler.empty() ? "not stated" : m.compiler == "c" ? "as C" : "as C++, " + m.compiler);
    }
    const Linkage linkage = read_linkage(elf);
    const int level = needed_x86_level(elf);
    page.line("processor", level == 0   ? "not stated (GCC states it with -mneeded)"
                           : level == 1 ? "any x86-64"
                                        : fmt::format("x86-64-v{} or later", level));
    page.line("binding", linkage.binds_now ? "all at load (BIND_NOW)" : "lazy as linked; lfrun binds all at load");
    for (const std::string& entry : linkage.rpath) page.line("RPATH", one_line(entry));
    for (const std::string& entry : linkage.runpath) page.line("RUNPATH", one_line(entry));
    tell_symbols(page, read_symbols(elf));
    tell_libraries(page, candidate.path, library_path);
  } catch (const Refusal&) {  // the verdict below says it
  }
  result.acceptable = !candidate.refusal;
  page.line("verdict", candidate.refusal ? "refused: " + *candidate.refusal
                                         : "acceptable; `lfrun plugins verify` tries it in a child process");
  result.text = std::move(page.text);
  return result;
}

}  // namespace lf
