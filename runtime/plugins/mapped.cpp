#include "plugins/mapped.h"

#include <algorithm>
#include <vector>

#include <link.h>
#include <unistd.h>

#include "plugins/refusal.h"

namespace lf {
namespace {

constexpr size_t kComparedBytes = 1 << 20;

struct MappedObject {
  const OpenFile& file;
  uintptr_t address;
  bool found = false, same = true;
};

// memcmp for a plugin that AddressSanitizer instruments: between its constants are bytes that nobody may read, and all
// of them are compared here.
[[gnu::no_sanitize_address]] bool equal(const std::byte* one, const std::byte* other, size_t bytes) {
  uint64_t difference = 0;
  size_t at = 0;
  for (; at + sizeof(uint64_t) <= bytes; at += sizeof(uint64_t)) {
    uint64_t a = 0, b = 0;
    __builtin_memcpy(&a, one + at, sizeof a);
    __builtin_memcpy(&b, other + at, sizeof b);
    difference |= a ^ b;
  }
  for (; at < bytes; ++at) difference |= static_cast<uint64_t>(one[at] ^ other[at]);
  return difference == 0;
}

bool same_bytes(const OpenFile& file, uint64_t offset, const std::byte* mapped, uint64_t bytes) {
  std::vector<std::byte> stored(std::min<uint64_t>(bytes, kComparedBytes));
  for (uint64_t done = 0; done < bytes;) {
    const size_t want = std::min<uint64_t>(bytes - done, stored.size());
    const ssize_t got = pread(file.fd(), stored.data(), want, static_cast<off_t>(offset + done));
    if (got <= 0 || !equal(stored.data(), mapped + done, static_cast<size_t>(got))) return false;
    done += static_cast<uint64_t>(got);
  }
  return true;
}

int compare_object(dl_phdr_info* info, size_t, void* context) {
  auto& object = *static_cast<MappedObject*>(context);
  const auto begin_of = [&](const ElfW(Phdr) & segment) { return info->dlpi_addr + segment.p_vaddr; };
  const auto* const first = info->dlpi_phdr;
  const auto* const last = first + info->dlpi_phnum;
  object.found = std::any_of(first, last, [&](const ElfW(Phdr) & segment) {
    return segment.p_type == PT_LOAD && object.address >= begin_of(segment) &&
           object.address < begin_of(segment) + segment.p_memsz;
  });
  if (!object.found) return 0;
  object.same = std::all_of(first, last, [&](const ElfW(Phdr) & segment) {
    return segment.p_type != PT_LOAD || (segment.p_flags & PF_W) != 0 || (segment.p_flags & PF_R) == 0 ||
           same_bytes(object.file, segment.p_offset, reinterpret_cast<const std::byte*>(begin_of(segment)),
                      segment.p_filesz);
  });
  return 1;
}

}  // namespace

void require_mapped_from(const OpenFile& file, const void* address) {
  MappedObject object{.file = file, .address = reinterpret_cast<uintptr_t>(address)};
  dl_iterate_phdr(compare_object, &object);
  if (!object.found) refuse("its entry lies in no object that the dynamic linker knows; the plugin is damaged");
  if (!object.same)
    refuse(
        "what the dynamic linker mapped is not the file that was checked: it was replaced while it was being loaded");
}

}  // namespace lf
