#include "core/crash.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <string_view>

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <unistd.h>

#include "core/whole_file.h"

namespace lf {
namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr bool kSanitizerTells = true;
#else
constexpr bool kSanitizerTells = false;
#endif
constexpr int kMostFrames = 24;
constexpr int kShownFrames = 12;
constexpr size_t kStackBytes = 64 << 10;  // of the handler: an overflown stack has no room for it
constexpr std::string_view kPluginEnd = ".lfplugin.so";

// One line, put together without the heap, which may be what broke.
class Line {
 public:
  Line& operator<<(std::string_view text) {
    const size_t n = std::min(text.size(), buffer_.size() - size_);
    std::memcpy(buffer_.data() + size_, text.data(), n);
    size_ += n;
    return *this;
  }
  Line& hex(uintptr_t value) {
    std::array<char, 2 * sizeof value> digits;
    size_t at = digits.size();
    do {
      digits[--at] = "0123456789abcdef"[value & 15];
    } while ((value >>= 4) != 0);
    return *this << "0x" << std::string_view(digits.data() + at, digits.size() - at);
  }
  void write_out() {
    *this << "\n";
    write_all(STDERR_FILENO, {buffer_.data(), size_});
  }

 private:
  std::array<char, 2048> buffer_;
  size_t size_ = 0;
};

// The file whose code stands at an address. glibc finds it without a lock.
struct Place {
  std::string_view file;
  uintptr_t offset = 0;

  explicit Place(const void* address) {
    dl_find_object found;
    if (_dl_find_object(const_cast<void*>(address), &found) != 0) return;
    file = found.dlfo_link_map->l_name;
    if (file.empty()) file = program_invocation_name;  // the program itself has no name there
    offset = reinterpret_cast<uintptr_t>(address) - found.dlfo_link_map->l_addr;
  }
  bool is_plugin() const { return file.ends_with(kPluginEnd); }
};

std::string_view name_of(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? "?" : name;
}

// The frames below the signal's own, the innermost first.
struct Frames {
  std::array<void*, kMostFrames> all;
  int first = 0, end = 0;

  explicit Frames(const void* at) {
    end = backtrace(all.data(), kMostFrames);
    for (int i = 0; i < end; ++i)
      if (all[static_cast<size_t>(i)] == at) first = i;
  }
};

void tell(int signal, const siginfo_t& info, const void* at) {
  const bool sent = info.si_code <= 0;  // by kill, raise or abort, and not by an instruction
  const Place place(at);
  Line headline;
  headline << "lfrun: crashed by SIG" << name_of(signal);
  if (!sent) headline << " at address ";
  if (!sent) headline.hex(reinterpret_cast<uintptr_t>(info.si_addr));
  if (!place.file.empty()) headline << " in " << place.file;
  headline.write_out();  // before the frames: a broken stack may end us while they are looked for
  const Frames frames(at);
  for (int i = frames.first; i < frames.end; ++i) {
    const Place frame(frames.all[static_cast<size_t>(i)]);
    if (!frame.is_plugin()) continue;
    (Line() << "lfrun: in a call of the plugin " << frame.file << ": report it to whoever ships it, with these lines")
        .write_out();
    break;
  }
  for (int i = frames.first; i < std::min(frames.end, frames.first + kShownFrames); ++i) {
    const Place frame(frames.all[static_cast<size_t>(i)]);
    Line line;
    line << "  " << (frame.file.empty() ? "?" : frame.file) << "+";
    line.hex(frame.offset).write_out();
  }
}

const void* instruction_of(const void* context) {
  const auto& registers = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  return reinterpret_cast<const void*>(registers.gregs[REG_RIP]);
#elif defined(__aarch64__)
  return reinterpret_cast<const void*>(registers.pc);
#else
#error "where this processor keeps its program counter"
#endif
}

void on_crash(int signal, siginfo_t* info, void* context) {
  static std::atomic<bool> told = false;
  if (!told.exchange(true)) tell(signal, *info, instruction_of(context));
  std::signal(signal, SIG_DFL);
  raise(signal);  // comes when this handler is left
}

}  // namespace

void tell_crashes() {
  if constexpr (kSanitizerTells) return;
  void* frame[1];
  backtrace(frame, 1);  // opens libgcc now, which a crash could not
  static std::array<char, kStackBytes> stack;
  stack_t alternative{};
  alternative.ss_sp = stack.data();
  alternative.ss_size = stack.size();
  sigaltstack(&alternative, nullptr);  // of this thread; others take their own stack
  struct sigaction action {};
  action.sa_sigaction = on_crash;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT}) sigaction(signal, &action, nullptr);
}

}  // namespace lf
