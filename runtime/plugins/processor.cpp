#include "plugins/processor.h"

#include <bit>
#include <cstring>

#include "plugins/refusal.h"

namespace lf {
namespace {

constexpr uint64_t kMostPropertyBytes = 4096;
constexpr uint32_t kIsaNeeded = 0xc0008002;  // GNU_PROPERTY_X86_ISA_1_NEEDED; one bit a level
constexpr uint32_t kKnownLevels = 0xf;

uint32_t word_at(const std::vector<std::byte>& bytes, size_t at) {
  uint32_t word = 0;
  std::memcpy(&word, bytes.data() + at, sizeof word);
  return word;
}

// Properties of one note: type, length, value, each filled up to 8 bytes.
uint32_t isa_bits(const std::vector<std::byte>& bytes, size_t at, size_t end) {
  while (at + 8 <= end) {
    const uint32_t type = word_at(bytes, at), length = word_at(bytes, at + 4);
    if (length > end - at - 8) refuse("its note of GNU properties is damaged; build it anew");
    if (type == kIsaNeeded && length == 4) return word_at(bytes, at + 8);
    at += 8 + (length + 7ull) / 8 * 8;
  }
  return 0;
}

}  // namespace

int needed_x86_level(const ElfFile& file) {
  for (const Elf64_Phdr& segment : file.segments()) {
    if (segment.p_type != PT_GNU_PROPERTY) continue;
    if (segment.p_filesz > kMostPropertyBytes) refuse("its note of GNU properties is damaged; build it anew");
    std::vector<std::byte> note(segment.p_filesz);
    file.read(segment.p_offset, note.data(), note.size(), "the GNU properties");
    constexpr size_t kHead = sizeof(Elf64_Nhdr) + 4;  // and "GNU"
    if (note.size() < kHead || word_at(note, 0) != 4 || word_at(note, 8) != NT_GNU_PROPERTY_TYPE_0 ||
        std::memcmp(note.data() + sizeof(Elf64_Nhdr), "GNU", 4) != 0 || word_at(note, 4) > note.size() - kHead)
      refuse("its note of GNU properties is damaged; build it anew");
    return std::bit_width(isa_bits(note, kHead, kHead + word_at(note, 4)) & kKnownLevels);
  }
  return 0;
}

int x86_level_here() {
  if (!__builtin_cpu_supports("sse4.2") || !__builtin_cpu_supports("popcnt")) return 1;
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("bmi") || !__builtin_cpu_supports("bmi2") ||
      !__builtin_cpu_supports("fma"))
    return 2;
  for (const bool has : {__builtin_cpu_supports("avx512f") != 0, __builtin_cpu_supports("avx512bw") != 0,
                         __builtin_cpu_supports("avx512cd") != 0, __builtin_cpu_supports("avx512dq") != 0,
                         __builtin_cpu_supports("avx512vl") != 0})
    if (!has) return 3;
  return 4;
}

void require_processor(const ElfFile& file, int here) {
  if (const int needed = needed_x86_level(file); needed > here)
    refuse("expected code for this processor, x86-64-v{}, got code for x86-64-v{}; rebuild it with -march=x86-64{}",
           here, needed, here > 1 ? fmt::format("-v{}", here) : "");
}

}  // namespace lf
