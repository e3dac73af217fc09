#include "plugins/dependencies.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <set>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "plugins/linkage.h"
#include "plugins/processor.h"
#include "plugins/refusal.h"

namespace lf {
namespace {

namespace fs = std::filesystem;

std::optional<Linkage> linkage_of(const fs::path& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return std::nullopt;
  struct stat status {};
  const OpenFile file(fd, fstat(fd, &status) == 0 ? status : (struct stat){});
  if (!S_ISREG(file.status().st_mode)) return std::nullopt;
  try {
    return read_linkage(ElfFile(file));
  } catch (const Refusal&) {
    return std::nullopt;
  }
}

// Library name -> path, from the cache that ldconfig writes (dl-cache.h of glibc: "glibc-ld.so.cache1.1").
std::map<std::string, fs::path> read_linker_cache() {
  std::map<std::string, fs::path> libraries;
  const int fd = open("/etc/ld.so.cache", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return libraries;
  struct stat status {};
  const OpenFile file(fd, fstat(fd, &status) == 0 ? status : (struct stat){});
  std::string bytes(file.size(), '\0');
  if (pread(fd, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) return libraries;
  constexpr std::string_view kMagic = "glibc-ld.so.cache1.1";
  const size_t start = bytes.find(kMagic);
  if (start == bytes.npos) return libraries;
  struct Entry {
    int32_t flags;
    uint32_t name, path, os_version;
    uint64_t hardware;
  };
  constexpr size_t kHead = 48;
  constexpr int32_t kX86_64 = 0x0303;  // FLAG_X8664_LIB64 | FLAG_ELF_LIBC6
  const auto text = [&](uint32_t offset) -> std::string {
    const size_t at = start + offset;
    return at >= bytes.size() ? "" : std::string(bytes.data() + at, strnlen(bytes.data() + at, bytes.size() - at));
  };
  if (bytes.size() - start < kHead) return libraries;
  uint32_t count = 0;
  std::memcpy(&count, bytes.data() + start + kMagic.size(), sizeof count);
  for (uint32_t i = 0; i < count && start + kHead + (i + 1) * sizeof(Entry) <= bytes.size(); ++i) {
    Entry entry;
    std::memcpy(&entry, bytes.data() + start + kHead + i * sizeof entry, sizeof entry);
    if (entry.flags == kX86_64 && entry.hardware == 0) libraries.emplace(text(entry.name), text(entry.path));
  }
  return libraries;
}

std::string with_origin(std::string entry, const fs::path& origin) {
  for (const std::string_view token : {"${ORIGIN}", "$ORIGIN"})
    if (entry.starts_with(token)) return origin.string() + entry.substr(token.size());
  return entry;
}

}  // namespace

class DependencySearch {
 public:
  explicit DependencySearch(const std::string& library_path)
      : library_path_(library_path), cache_(read_linker_cache()) {}

  std::vector<Dependency> run(const fs::path& file) const {
    std::vector<Dependency> found;
    std::deque<Loaded> queue;
    std::set<std::string> known;
    if (const auto linkage = linkage_of(file)) queue.push_back({file, *linkage, {}});
    while (!queue.empty()) {
      const Loaded loader = std::move(queue.front());
      queue.pop_front();
      for (const std::string& name : loader.linkage.needed) {
        if (name == "ld-linux-x86-64.so.2" || !known.insert(name).second) continue;
        Dependency dependency{name, "", "", loader.path.filename().string()};
        if (auto library = find(name, loader)) {
          dependency.path = library->path;
          dependency.soname =
              library->linkage.soname.empty() ? fs::path(name).filename().string() : library->linkage.soname;
          known.insert(dependency.soname);
          queue.push_back(std::move(*library));
        }
        found.push_back(std::move(dependency));
      }
    }
    return found;
  }

 private:
  struct Loaded {
    fs::path path;
    Linkage linkage;
    std::vector<std::string> inherited;  // RPATH of those that loaded it, absolute
  };

  std::optional<Loaded> find(const std::string& name, const Loaded& loader) const {
    std::vector<std::string> places, inherited = loader.inherited;
    const fs::path origin = loader.path.parent_path();
    if (loader.linkage.runpath.empty()) {
      std::vector<std::string> own;
      for (const std::string& entry : loader.linkage.rpath) own.push_back(with_origin(entry, origin));
      inherited.insert(inherited.begin(), own.begin(), own.end());
      places = inherited;
    }
    for (size_t at = 0; at < library_path_.size();) {
      const size_t end = std::min(library_path_.find_first_of(":;", at), library_path_.size());
      places.push_back(library_path_.substr(at, end - at));
      at = end + 1;
    }
    for (const std::string& entry : loader.linkage.runpath) places.push_back(with_origin(entry, origin));
    const auto take = [&](const fs::path& path) -> std::optional<Loaded> {
      auto linkage = linkage_of(path);
      if (!linkage) return std::nullopt;
      std::error_code error;
      const fs::path real = fs::canonical(path, error);
      return Loaded{error ? path : real, std::move(*linkage), inherited};
    };
    if (name.starts_with('/')) return take(name);
    for (const std::string& place : places) {
      for (int level = level_; level > 1; --level)  // code for later processors comes first (ld.so(8), glibc-hwcaps)
        if (auto library = take(fs::path(place) / fmt::format("glibc-hwcaps/x86-64-v{}", level) / name)) return library;
      if (auto library = take(fs::path(place) / name)) return library;
    }
    if (const auto cached = cache_.find(name); cached != cache_.end())
      if (auto library = take(cached->second)) return library;
    for (const char* place :
         {"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"})
      if (auto library = take(fs::path(place) / name)) return library;
    return std::nullopt;
  }

  std::string library_path_;
  std::map<std::string, fs::path> cache_;
  int level_ = x86_level_here();
};

namespace {

bool is_vendor_library(std::string_view soname) {
  constexpr std::array kStems = {"libcuda",      "libcublas",   "libcudnn", "libcufft", "libcurand",
                                 "libcusolver",  "libcusparse", "libcupti", "libnccl",  "libnvrtc",
                                 "libnvJitLink", "libxpu",      "libbkcl",  "libxccl"};
  return std::any_of(kStems.begin(), kStems.end(), [&](const char* stem) { return soname.starts_with(stem); });
}

}  // namespace

std::vector<Dependency> dependencies_of(const fs::path& file, const std::string& library_path) {
  return DependencySearch(library_path).run(file);
}

VendorLibraries::VendorLibraries(const std::string& library_path)
    : search_(std::make_unique<DependencySearch>(library_path)) {}

VendorLibraries::~VendorLibraries() = default;

std::optional<std::string> VendorLibraries::take(const fs::path& file) {
  std::map<std::string, Provider> with_it = providers_;
  for (const Dependency& dependency : search_->run(file)) {
    if (dependency.path.empty() || !is_vendor_library(dependency.soname)) continue;
    const auto [found, is_new] = with_it.emplace(dependency.soname, Provider{dependency.path, file});
    std::error_code error;
    if (!is_new && !fs::equivalent(found->second.library, dependency.path, error))
      return fmt::format(
          "expected one {} in the process, got two: {} (for {}) and {} (for {}); point both at one installation",
          one_line(dependency.soname), found->second.library.string(), found->second.file.filename().string(),
          dependency.path.string(), file.filename().string());
  }
  providers_ = std::move(with_it);
  return std::nullopt;
}

std::optional<std::string> vendor_conflict(const std::vector<fs::path>& files, const std::string& library_path) {
  VendorLibraries libraries(library_path);
  for (const fs::path& file : files)
    if (auto conflict = libraries.take(file)) return conflict;
  return std::nullopt;
}

}  // namespace lf
