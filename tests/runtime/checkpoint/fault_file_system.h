// File systems that fail: at the k-th operation, or by a loss of power.
#pragma once

#include <csignal>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

#include "weights/file_system.h"

namespace lf::test {

// Calls `before(operation, path)` ahead of everything that changes the disk; what it throws is the operation's failure.
class WatchedFileSystem : public FileSystem {
 public:
  using Before = std::function<void(const char*, const std::filesystem::path&)>;
  explicit WatchedFileSystem(Before before) : before_(std::move(before)) {}

  std::unique_ptr<OutputFile> create(const std::filesystem::path& path, uint64_t size) override {
    before_("create", path);
    return std::make_unique<File>(*this, real_.create(path, size), path);
  }
  std::unique_ptr<OutputFile> open(const std::filesystem::path& path) override {
    before_("open", path);
    return std::make_unique<File>(*this, real_.open(path), path);
  }
  void make_directory(const std::filesystem::path& path) override {
    before_("mkdir", path), real_.make_directory(path);
  }
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    before_("rename", to), real_.rename(from, to);
  }
  bool exchange(const std::filesystem::path& a, const std::filesystem::path& b) override {
    return before_("exchange", b), real_.exchange(a, b);
  }
  void remove(const std::filesystem::path& path) override { before_("remove", path), real_.remove(path); }
  void sync_directory(const std::filesystem::path& path) override {
    before_("sync_directory", path), real_.sync_directory(path);
  }
  uint64_t available_bytes(const std::filesystem::path& path) override {
    return available_ ? *available_ : real_.available_bytes(path);
  }

  void set_available(uint64_t bytes) { available_ = bytes; }

 protected:
  class File final : public OutputFile {
   public:
    File(WatchedFileSystem& watched, std::unique_ptr<OutputFile> real, std::filesystem::path path)
        : watched_(watched), real_(std::move(real)), path_(std::move(path)) {}
    void write(uint64_t offset, const void* bytes, uint64_t size) override {
      watched_.before_("write", path_);
      real_->write(offset, bytes, size);
    }
    void sync() override {
      watched_.before_("sync", path_);
      real_->sync();
      watched_.after_sync(path_);
    }

   private:
    WatchedFileSystem& watched_;
    std::unique_ptr<OutputFile> real_;
    std::filesystem::path path_;
  };
  virtual void after_sync(const std::filesystem::path&) {}

  Before before_;
  PosixFileSystem real_;
  std::optional<uint64_t> available_;
};

// Counts operations; `fault` runs at the k-th and, with `for_ever`, at all later ones.
inline WatchedFileSystem::Before at_operation(int k, bool for_ever,
                                              std::function<void(const char*, const std::filesystem::path&)> fault,
                                              std::shared_ptr<int> count = std::make_shared<int>(0)) {
  return [=](const char* operation, const std::filesystem::path& path) {
    ++*count;
    if (*count == k || (for_ever && *count > k)) fault(operation, path);
  };
}

// A disk whose power fails: after cut() nothing more is done, and what no sync had made durable is lost: contents of
// files, and entries of folders (made, renamed and removed ones go back to what they were).
class PowerlessFileSystem final : public FileSystem {
 public:
  explicit PowerlessFileSystem(int operations, std::filesystem::path graveyard)
      : left_(operations), graveyard_(std::move(graveyard)) {
    std::filesystem::create_directories(graveyard_);
  }

  std::unique_ptr<OutputFile> create(const std::filesystem::path& path, uint64_t size) override {
    spend(path);
    auto file = real_.create(path, size);
    unsynced_.insert(inode(path));
    undo_.push_back({Undo::kMade, path, {}});
    return std::make_unique<File>(*this, std::move(file), path);
  }
  std::unique_ptr<OutputFile> open(const std::filesystem::path& path) override { return spend(path), real_.open(path); }
  void make_directory(const std::filesystem::path& path) override {
    spend(path);
    real_.make_directory(path);
    undo_.push_back({Undo::kMade, path, {}});
  }
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    spend(to);
    if (std::filesystem::exists(to)) bury(to);
    real_.rename(from, to);
    undo_.push_back({Undo::kMoved, to, from});
  }
  bool exchange(const std::filesystem::path& a, const std::filesystem::path& b) override {
    spend(b);
    if (!real_.exchange(a, b)) return false;
    undo_.push_back({Undo::kExchanged, b, a});
    return true;
  }
  void remove(const std::filesystem::path& path) override {
    spend(path);
    bury(path);
  }
  void sync_directory(const std::filesystem::path& path) override {
    spend(path);
    for (size_t i = 0; i < undo_.size();) {
      if (undo_[i].path.parent_path() != path) {
        ++i;
        continue;
      }
      const Undo durable = undo_[i];
      undo_.erase(undo_.begin() + static_cast<ptrdiff_t>(i));
      // What was done before inside a folder that has moved for good is now to be undone in its new place.
      if (durable.kind != Undo::kMoved && durable.kind != Undo::kExchanged) continue;
      for (size_t k = 0; k < i; ++k) {
        const bool moved = relocate(undo_[k], durable.other, durable.path);
        if (!moved && durable.kind == Undo::kExchanged) relocate(undo_[k], durable.path, durable.other);
      }
    }
  }
  uint64_t available_bytes(const std::filesystem::path& path) override { return real_.available_bytes(path); }

  // The power is gone: what a machine finds when it comes up again. Entries that no sync secured are lost, or, as a
  // disk may also do, kept; contents that no sync secured are garbage.
  void lose(const std::filesystem::path& root, bool entries_too) {
    // A folder that is durably gone needs no undoing of what happened inside it.
    if (entries_too) {
      for (auto undo = undo_.rbegin(); undo != undo_.rend(); ++undo)
        if (std::filesystem::exists(undo->path.parent_path())) act(*undo);
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
      if (entry.is_regular_file() && unsynced_.contains(inode(entry.path())))
        std::filesystem::resize_file(entry.path(), std::filesystem::file_size(entry.path()) / 2);
    }
  }
  bool failed() const { return left_ < 0; }

 private:
  struct Undo {
    enum Kind { kMade, kMoved, kExchanged, kRemoved } kind;
    std::filesystem::path path, other;  // where it is now; where it was
  };
  void act(const Undo& undo) {
    switch (undo.kind) {
      case Undo::kMade:
        std::filesystem::remove_all(undo.path);
        break;
      case Undo::kMoved:
        std::filesystem::rename(undo.path, undo.other);
        break;
      case Undo::kExchanged:
        real_.exchange(undo.path, undo.other);
        break;
      case Undo::kRemoved:
        std::filesystem::rename(undo.other, undo.path);
        break;
    }
  }
  static bool relocate(Undo& undo, const std::filesystem::path& from, const std::filesystem::path& to) {
    if (undo.path.parent_path() != from) return false;
    undo.path = to / undo.path.filename();
    return true;
  }
  class File final : public OutputFile {
   public:
    File(PowerlessFileSystem& disk, std::unique_ptr<OutputFile> real, std::filesystem::path path)
        : disk_(disk), real_(std::move(real)), path_(std::move(path)), inode_(inode(path_)) {}
    void write(uint64_t offset, const void* bytes, uint64_t size) override {
      disk_.spend(path_);
      disk_.unsynced_.insert(inode_);
      real_->write(offset, bytes, size);
    }
    void sync() override {
      disk_.spend(path_);
      disk_.unsynced_.erase(inode_);
    }

   private:
    PowerlessFileSystem& disk_;
    std::unique_ptr<OutputFile> real_;
    std::filesystem::path path_;
    ino_t inode_;
  };

  static ino_t inode(const std::filesystem::path& path) {
    struct stat info {};
    return ::stat(path.c_str(), &info) == 0 ? info.st_ino : 0;
  }
  void spend(const std::filesystem::path& path) {
    if (--left_ < 0) throw FileError(EIO, "power", path);
  }
  void bury(const std::filesystem::path& path) {
    const std::filesystem::path grave = graveyard_ / std::to_string(buried_++);
    std::filesystem::rename(path, grave);
    undo_.push_back({Undo::kRemoved, path, grave});
  }

  int left_;
  int buried_ = 0;
  std::filesystem::path graveyard_;
  PosixFileSystem real_;
  std::set<ino_t> unsynced_;
  std::vector<Undo> undo_;
};

}  // namespace lf::test
