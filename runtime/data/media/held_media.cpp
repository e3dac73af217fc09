#include "data/media/held_media.h"

#include <utility>

namespace lf {

HeldMedia::Lease::Lease(HeldMedia& held, std::vector<StreamedMedium> media) : held_(&held), media_(std::move(media)) {
  const std::lock_guard lock(held_->mutex_);
  for (const StreamedMedium& medium : media_) {
    Entry& entry = held_->entries_[medium.name];
    entry.bytes = medium.bytes;
    ++entry.leases;
  }
}

HeldMedia::Lease::~Lease() {
  if (held_ == nullptr) return;
  const std::lock_guard lock(held_->mutex_);
  for (const StreamedMedium& medium : media_) {
    const auto found = held_->entries_.find(medium.name);
    if (--found->second.leases == 0) held_->entries_.erase(found);
  }
}

std::shared_ptr<const std::string> HeldMedia::find(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(name);
  return found != entries_.end() ? found->second.bytes : nullptr;
}

}  // namespace lf
