// What changes a disk, behind an interface: writers of model directories and checkpoints reach the disk only through
// it, so that tests can fail or stop them at any single operation. Reading goes to the disk directly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/error.h"

namespace lf {

// A failed file operation: `code` is its errno. The message names the path and the operation.
class FileError : public Error {
 public:
  FileError(int code, std::string_view operation, const std::filesystem::path& path);
  int code() const { return code_; }
  bool no_space() const;  // disk or quota full: waiting or deleting may help

 private:
  int code_;
};

// An open file for writing, closed on destruction. write() may be called from several threads.
class OutputFile {
 public:
  virtual ~OutputFile() = default;
  virtual void write(uint64_t offset, const void* bytes, uint64_t size) = 0;
  virtual void sync() = 0;  // returns when everything written is on stable storage
};

// Every operation throws FileError. Paths are taken as they are; nothing follows from the working directory.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  // A new file of `size` bytes whose space is reserved where the file system can; refuses an existing one.
  virtual std::unique_ptr<OutputFile> create(const std::filesystem::path& path, uint64_t size) = 0;
  // An existing file, to write further pieces into.
  virtual std::unique_ptr<OutputFile> open(const std::filesystem::path& path) = 0;
  virtual void make_directory(const std::filesystem::path& path) = 0;  // its parent exists, it does not
  virtual void rename(const std::filesystem::path& from, const std::filesystem::path& to) = 0;
  // Swaps two existing entries in one step; false where the file system cannot.
  virtual bool exchange(const std::filesystem::path& a, const std::filesystem::path& b) = 0;
  virtual void remove(const std::filesystem::path& path) = 0;          // a file or an empty folder
  virtual void sync_directory(const std::filesystem::path& path) = 0;  // makes new and renamed entries durable
  virtual uint64_t available_bytes(
      const std::filesystem::path& path) = 0;  // to this user, where `path` lies or will lie
};

class PosixFileSystem final : public FileSystem {
 public:
  std::unique_ptr<OutputFile> create(const std::filesystem::path& path, uint64_t size) override;
  std::unique_ptr<OutputFile> open(const std::filesystem::path& path) override;
  void make_directory(const std::filesystem::path& path) override;
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override;
  bool exchange(const std::filesystem::path& a, const std::filesystem::path& b) override;
  void remove(const std::filesystem::path& path) override;
  void sync_directory(const std::filesystem::path& path) override;
  uint64_t available_bytes(const std::filesystem::path& path) override;
};

// A whole small file, synced.
void write_file(FileSystem& files, const std::filesystem::path& path, std::string_view bytes);
// A folder and everything under it; not there: nothing. Symbolic links are removed, not followed.
void remove_tree(FileSystem& files, const std::filesystem::path& path);
// Puts `fresh` in the place of `target`, whether or not there is one, so that at any moment one of the two is there,
// or, on file systems that cannot exchange, `old` holds it. The former target is removed. Both lie in one folder, which
// is synced.
void replace_tree(FileSystem& files, const std::filesystem::path& fresh, const std::filesystem::path& target);

// Calls visit(bytes) for the pieces of a file, in order. By reading, not by mapping: a bad sector is an error here, and
// would be the end of the process there. Throws FileError, or lf::Error(kBadData) for what is no regular file.
void for_each_chunk(const std::filesystem::path& path, const std::function<void(std::span<const std::byte>)>& visit);

// The text of a file of at most `limit` bytes. Throws FileError, or lf::Error(kBadData) when it is longer.
std::string read_text_file(const std::filesystem::path& path, uint64_t limit);

}  // namespace lf
