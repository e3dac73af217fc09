#include "torch_part.h"

#include <sstream>

#include <dlfcn.h>
#include <fmt/format.h>

#include "lf/plugin_api/entry.h"
#include "stream.h"

namespace lf::kunlun {
namespace fs = std::filesystem;
namespace {

constexpr const char* kPrefix = "kunlun_torch_";  // as the manifest names it to the host, which judges such files

fs::path own_folder() {
  Dl_info where{};
  if (dladdr(reinterpret_cast<void*>(&lf_plugin_entry), &where) == 0)
    throw sdk::Failure(LF_E_BUG, "kunlun: the plugin does not know its own file");
  return fs::weakly_canonical(where.dli_fname).parent_path();
}

std::string builds_in(const fs::path& folder) {
  std::string found;
  for (const auto& file : fs::directory_iterator(folder)) {
    const std::string name = file.path().filename();
    if (!name.starts_with(kPrefix) || file.path().extension() != ".so") continue;
    found += (found.empty() ? "" : ", ") + file.path().stem().string().substr(std::string(kPrefix).size());
  }
  return found.empty() ? "none" : found;
}

const lf_kunlun_torch* open_part(const std::string& torch_build) {
  const fs::path folder = own_folder(), path = folder / (kPrefix + torch_build + ".so");
  if (!fs::exists(path))
    throw sdk::Failure(
        LF_E_UNSUPPORTED,
        fmt::format("kunlun: the core runs LibTorch {}, and {} has parts for: {}; build target kunlun_torch "
                    "against {}",
                    torch_build, folder.string(), builds_in(folder), torch_build));
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) throw sdk::Failure(LF_E_UNSUPPORTED, dlerror());
  const auto entry = reinterpret_cast<const lf_kunlun_torch* (*)()>(dlsym(handle, LF_KUNLUN_TORCH_ENTRY));
  const lf_kunlun_torch* part = entry == nullptr ? nullptr : entry();
  if (part == nullptr || part->size != sizeof *part || part->build != torch_build)
    throw sdk::Failure(
        LF_E_UNSUPPORTED,
        fmt::format("kunlun: {} was built for LibTorch {}, the core runs {}; build target kunlun_torch anew",
                    path.string(), part == nullptr ? "?" : part->build, torch_build));
  return part;
}

// [device] op_fallback: "error" unless the job says otherwise.
int32_t fallback_policy(const lf_host* host) {
  std::string json;
  lf_err err = sdk::make_err();
  if (!LF_HAS(host, option)) return LF_KUNLUN_FALLBACK_ERROR;
  if (host->option(host, sdk::str("device.op_fallback"), sdk::string_sink(json), &err) != LF_OK)
    return LF_KUNLUN_FALLBACK_ERROR;
  if (json == "\"warn\"") return LF_KUNLUN_FALLBACK_WARN;
  if (json == "\"error\"") return LF_KUNLUN_FALLBACK_ERROR;
  throw sdk::Failure(LF_E_INVALID, fmt::format("device.op_fallback: expected \"error\" or \"warn\", got {}", json));
}

Device& of(void* context) { return *static_cast<Device*>(context); }

template <typename Body>
int32_t bridged(lf_err* err, Body&& body) noexcept {
  return sdk::guard(err, std::forward<Body>(body));
}

}  // namespace

void TorchPart::register_device(Device& device, const std::string& torch_build) {
  if (registered_ == &device) return;
  if (registered_ != nullptr)
    throw sdk::Failure(LF_E_INVALID,
                       fmt::format("kunlun: LibTorch has one slot for such a device, and kunlun:{} is in it; "
                                   "use one process per card",
                                   registered_->ordinal()));
  const lf_kunlun_torch* part = open_part(torch_build);
  lf_kunlun_device bridge{};
  bridge.size = sizeof bridge;
  bridge.ordinal = device.ordinal();
  bridge.device_count = device.count();
  bridge.fallback = fallback_policy(host_);
  bridge.host_visible = device.host_visible() ? 1 : 0;
  bridge.context = &device;
  bridge.allocate = [](void* context, uint64_t bytes, void** out, lf_err* err) {
    return bridged(err, [&] { *out = of(context).allocate(bytes, LF_MEMORY_MAIN); });
  };
  bridge.release = [](void* context, void* memory, lf_err* err) {
    return bridged(err, [&] { of(context).release(memory); });
  };
  bridge.host_view = [](void* context, const void* memory, uint64_t bytes, void** out, lf_err* err) {
    return bridged(err, [&] {
      *out = of(context).host_view(memory, bytes);
      if (*out == nullptr)
        throw sdk::Failure(LF_E_INVALID,
                           fmt::format("kunlun: {} bytes at {} are no memory of this device", bytes, memory));
    });
  };
  bridge.to_device = [](void* context, void* memory, const void* host, uint64_t bytes, lf_err* err) {
    return bridged(err, [&] { copy_now(of(context), memory, host, bytes, kHostToDevice); });
  };
  bridge.from_device = [](void* context, void* host, const void* memory, uint64_t bytes, lf_err* err) {
    return bridged(err, [&] { copy_now(of(context), host, memory, bytes, kDeviceToHost); });
  };
  bridge.on_device = [](void* context, void* to, const void* from, uint64_t bytes, lf_err* err) {
    return bridged(err, [&] {
      copy({&of(context), to}, {&of(context), const_cast<void*>(from)}, bytes, &of(context), nullptr);
      wait_for_stream(of(context), nullptr);
    });
  };
  bridge.settle = [](void* context, lf_err* err) { return bridged(err, [&] { of(context).settle(); }); };
  bridge.synchronize = [](void* context, lf_err* err) { return bridged(err, [&] { of(context).synchronize(); }); };
  lf_err err = sdk::make_err();
  sdk::check(part->register_device(&bridge, &err), err);
  part_ = part;
  registered_ = &device;
}

std::vector<std::pair<std::string, uint64_t>> TorchPart::fallen_operators() const {
  std::string text;
  lf_err err = sdk::make_err();
  if (part_ == nullptr || part_->report(sdk::string_sink(text), &err) != LF_OK) return {};
  std::vector<std::pair<std::string, uint64_t>> fallen;
  std::istringstream lines(text);
  for (auto [name, count] = std::pair<std::string, uint64_t>(); lines >> name >> count;)
    fallen.emplace_back(name, count);
  return fallen;
}

}  // namespace lf::kunlun
