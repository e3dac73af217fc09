// Plugins: found, judged without running their code, tried in a child process, and loaded for good.
//
//   PluginSet plugins(dirs, PluginHost{.torch_build = LF_TORCH_BUILD});
//   Plugin& device = plugins.load(PluginKind::kDevice, "cpu");   // lf::Error(kConfig) in one line where it is refused
//   device.start(&host);
//   const auto* api = device.interface<lf_device_api>(LF_DEVICE_INTERFACE);
//
// A plugin is never unloaded: docs/adr/0002. Everything here belongs to the thread that started the process.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "lf/plugin_api/entry.h"
#include "lf/plugin_api/media.h"
#include "lf/plugin_api/parallel.h"

namespace lf {

enum class PluginKind : int32_t { kDevice = LF_KIND_DEVICE, kModel = LF_KIND_MODEL, kBalancer = LF_KIND_BALANCER };

std::string_view kind_word(PluginKind kind);  // "device"

// What a plugin says of itself in its ELF note; see lf/plugin_api/entry.h.
struct Manifest {
  std::string abi;
  PluginKind kind = PluginKind::kDevice;
  std::string id, version;
  std::vector<std::string> interfaces;  // "lf.model/1"
  std::string torch;                    // "none", or the LibTorch build it was compiled with
  std::vector<std::string> required_extensions;
  std::vector<std::string> parts;  // patterns of the files that it opens by itself; see parts.h
  std::string compiler;            // LF_COMPILER_ABI of its code; empty: it has no note of that
};

// A folder's plugins.lock: heeded where it is there; needed in every folder (`--locked`); or not looked at.
enum class LockUse { kIfThere, kRequired, kIgnored };

// What the core offers plugins; they are refused against it.
struct PluginHost {
  std::string torch_build;  // "2.11.0+cu130"
  std::vector<std::string> extensions = {LF_PARALLEL_EXTENSION, LF_MEDIA_EXTENSION};
  LockUse lock = LockUse::kIfThere;
  std::filesystem::path core = {};         // its libraries are in the process that loads plugins; empty: none
  std::string library_path = {};           // the value of LD_LIBRARY_PATH, which the dynamic linker heeds
  int x86_level = 0;                       // of the processor, see processor.h; 0: the one that this runs on
  std::string compiler = LF_COMPILER_ABI;  // of what LibTorch shares C++ objects with
};

// A file that a plugin opens by itself, as it was when the plugin was judged.
struct PluginPart {
  std::string name;  // as plugins.lock lists it: its path from the plugin's folder
  std::filesystem::path path;
  std::string locked_sha256;  // empty: there is no lock
  dev_t device = 0;
  ino_t inode = 0;
};

// A file named *.lfplugin.so. With `refusal` ("expected ..., got ...; next move") it is not to be opened.
struct Candidate {
  std::filesystem::path path;  // absolute, in a folder without symbolic links
  std::optional<Manifest> manifest;
  std::optional<std::string> refusal;
  std::string locked_sha256;  // what its bytes must be when it is opened; empty: there is no lock
  dev_t device = 0;           // the file that was judged
  ino_t inode = 0;
  std::vector<PluginPart> parts;
};

// Whether the file says, or where nothing can be read of it, would be by its name, that plugin.
bool would_be(const Candidate& candidate, PluginKind kind, std::string_view id);

// All candidates, by folder in the order given and by name; no code of theirs runs. A file found twice is one
// candidate. Throws lf::Error(kConfig) where a folder cannot be listed.
std::vector<Candidate> list_plugins(const std::vector<std::filesystem::path>& dirs, const PluginHost& host);

// The judgement on one file.
Candidate judge_plugin(const std::filesystem::path& file, const PluginHost& host);

// What a child process that opens a plugin may take: half a gigabyte of LibTorch from a cold network disk, or a driver
// that wakes up, is no fault of the plugin's, and plugins have limits of their own.
inline constexpr std::chrono::seconds kProbeLimit{60};

// Opens the candidate in a child process (after comparing its bytes with the lock's, where there is one), calls its
// entry and asks for its interfaces. The reason to refuse it, be it an error, an exception, a crash or silence for
// longer than `limit`; none where all is well.
std::optional<std::string> probe_plugin(const Candidate& candidate, std::chrono::milliseconds limit);

// A loaded plugin. Its code stays mapped until the process ends.
class Plugin {
 public:
  ~Plugin();  // stops it, if it was started
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  const std::string& id() const { return candidate_.manifest->id; }
  const Manifest& manifest() const { return *candidate_.manifest; }
  const std::filesystem::path& path() const { return candidate_.path; }

  // The table of an interface, valid as long as the process; null where the plugin does not offer it.
  template <typename Table>
  const Table* interface(std::string_view interface_id) const {
    return static_cast<const Table*>(find_interface(interface_id));
  }

  // Once. `host` must live longer than this object. Throws lf::Error with what the plugin says.
  void start(const lf_host* host);

 private:
  friend class PluginSet;
  Plugin(Candidate candidate, const lf_plugin* descriptor)
      : candidate_(std::move(candidate)), descriptor_(descriptor) {}
  const void* find_interface(std::string_view interface_id) const;

  Candidate candidate_;
  const lf_plugin* descriptor_;
  bool started_ = false;
};

class PluginSet {
 public:
  // Lists the folders. `probing` false: whoever forked this process has probed what it will load.
  PluginSet(const std::vector<std::filesystem::path>& dirs, PluginHost host, bool probing = true);
  ~PluginSet();  // stops what was started, the last first

  const std::vector<std::filesystem::path>& dirs() const { return dirs_; }
  const std::vector<Candidate>& candidates() const { return candidates_; }
  const std::vector<std::unique_ptr<Plugin>>& loaded() const { return loaded_; }

  // The one acceptable candidate of that kind and id. Throws lf::Error(kConfig), in one line: none (and what there is
  // instead, or why it was refused), or two (both paths).
  const Candidate& find(PluginKind kind, std::string_view id) const;

  // Throws lf::Error(kConfig), naming both files, where these and the core, loaded together, would bring a vendor's
  // library from two.
  void require_one_of_each_library(const std::vector<std::filesystem::path>& files) const;

  // find, and a probe: throws lf::Error(kConfig) with its reason.
  void verify(PluginKind kind, std::string_view id) const;

  // verify, and the library opened in this process, whose vendors' libraries must be those of the plugins loaded
  // before. The same object for the same plugin.
  Plugin& load(PluginKind kind, std::string_view id);

 private:
  std::vector<std::filesystem::path> dirs_;
  const PluginHost host_;
  bool probing_;
  std::vector<Candidate> candidates_;
  std::vector<std::unique_ptr<Plugin>> loaded_;
  std::unique_ptr<class VendorLibraries> libraries_;  // of the core and of those; made when the first is loaded
};

}  // namespace lf
