#include "conformance/breadcrumb.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <sys/mman.h>

#include "core/error.h"

namespace lf {

struct Breadcrumb::Page {
  char function[128];
  char verdict;
  char detail[1024];
};

namespace {

template <size_t kSize>
void put_text(char (&to)[kSize], std::string_view text) noexcept {
  const size_t n = std::min(text.size(), kSize - 1);
  to[0] = '\0';  // a reader never sees half a name behind a whole one's end
  std::memcpy(to + 1, text.data() + std::min<size_t>(1, n), n > 0 ? n - 1 : 0);
  to[n] = '\0';
  if (n > 0) to[0] = text[0];
}

template <size_t kSize>
std::string text_of(const char (&from)[kSize]) {
  return {from, strnlen(from, kSize)};
}

}  // namespace

Breadcrumb::Breadcrumb() {
  void* memory = mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) fail(Exit::kUnavailable, "no shared page for trying plugins: {}", std::strerror(errno));
  page_ = static_cast<Page*>(memory);
}

Breadcrumb::~Breadcrumb() { munmap(page_, sizeof(Page)); }

void Breadcrumb::enter(std::string_view function) noexcept { put_text(page_->function, function); }
void Breadcrumb::leave() noexcept { page_->function[0] = '\0'; }

void Breadcrumb::clear() noexcept {
  leave();
  page_->verdict = 0;
  page_->detail[0] = '\0';
}

void Breadcrumb::say(char verdict, std::string_view detail) noexcept {
  put_text(page_->detail, detail);
  page_->verdict = verdict;
}

std::string Breadcrumb::function() const { return text_of(page_->function); }
char Breadcrumb::verdict() const { return page_->verdict; }
std::string Breadcrumb::detail() const { return text_of(page_->detail); }

}  // namespace lf
