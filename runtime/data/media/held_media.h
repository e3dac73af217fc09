// Pictures and videos that came with a stream and are no files: found by name as if they were.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace lf {

struct StreamedMedium {
  // Absolute, and of these bytes alone: the archive's path, the byte at which the member begins, and its name, as an
  // archive may hold a name twice: "/data/a.tar@1536/0001.png"; readable().
  std::string name;
  std::shared_ptr<const std::string> bytes;
};

// Thread-safe. Outlives its leases.
class HeldMedia {
 public:
  // Media can be found while a lease of them is alive; leases of the same name, and so of the same bytes, may overlap.
  class Lease {
   public:
    Lease() = default;
    Lease(HeldMedia& held, std::vector<StreamedMedium> media);
    ~Lease();
    Lease(Lease&& other) noexcept { *this = std::move(other); }
    Lease& operator=(Lease&& other) noexcept {
      std::swap(held_, other.held_);
      std::swap(media_, other.media_);
      return *this;
    }
    const std::vector<StreamedMedium>& media() const { return media_; }

   private:
    HeldMedia* held_ = nullptr;
    std::vector<StreamedMedium> media_;
  };

  std::shared_ptr<const std::string> find(const std::string& name) const;  // null: not held

 private:
  struct Entry {
    std::shared_ptr<const std::string> bytes;
    int leases = 0;
  };
  mutable std::mutex mutex_;
  std::map<std::string, Entry> entries_;
};

}  // namespace lf
