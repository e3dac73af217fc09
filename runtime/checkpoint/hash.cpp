#include "checkpoint/hash.h"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

namespace lf {

struct Hash::State {
  XXH3_state_t xxh;
};

namespace {

std::string text_of(XXH128_hash_t hash) { return fmt::format("{:016x}{:016x}", hash.high64, hash.low64); }

}  // namespace

Hash::Hash() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->xxh); }
Hash::Hash(Hash&&) noexcept = default;
Hash& Hash::operator=(Hash&&) noexcept = default;
Hash::~Hash() = default;

void Hash::add(const void* bytes, uint64_t size) { XXH3_128bits_update(&state_->xxh, bytes, size); }

std::string Hash::hex() const { return text_of(XXH3_128bits_digest(&state_->xxh)); }

std::string hash_hex(std::string_view bytes) { return text_of(XXH3_128bits(bytes.data(), bytes.size())); }

std::string hash_hex(std::span<const std::byte> bytes) { return text_of(XXH3_128bits(bytes.data(), bytes.size())); }

}  // namespace lf
