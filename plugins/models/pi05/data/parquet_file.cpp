#include "pi05/data/parquet_file.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include <dlfcn.h>
#include <fmt/format.h>

#include "lf/plugin_sdk/guard.hpp"
#include "lf/plugin_sdk/tensor.hpp"
#include "pi05/data/parquet/parquet_library.h"

namespace lf::robot {
namespace {

constexpr const char* kLibrary = "liblfparquet.so";

// Beside the object that holds this code, or in the lib folder beside its folder.
std::filesystem::path library_path() {
  Dl_info self{};
  if (::dladdr(reinterpret_cast<const void*>(&library_path), &self) == 0) return kLibrary;
  const std::filesystem::path here = std::filesystem::absolute(self.dli_fname).parent_path();
  for (const std::filesystem::path& candidate : {here / kLibrary, here.parent_path() / "lib" / kLibrary})
    if (std::filesystem::exists(candidate)) return candidate;
  return here / kLibrary;
}

const ParquetTable& table() {
  static const ParquetTable& loaded = [&]() -> const ParquetTable& {
    void* library = ::dlopen(library_path().c_str(), RTLD_NOW | RTLD_LOCAL);  // for the life of the process
    void* entry = library != nullptr ? ::dlsym(library, kParquetEntryName) : nullptr;
    if (entry == nullptr)
      throw sdk::Failure(LF_E_UNSUPPORTED,
                         fmt::format("cannot read Parquet files: {}; run tools/setup.sh and build again", ::dlerror()));
    return *reinterpret_cast<decltype(&lf_parquet_table)>(entry)();
  }();
  return loaded;
}

std::vector<std::string> split(const std::string& ended_by_nul) {
  std::vector<std::string> out;
  for (size_t at = 0; at < ended_by_nul.size(); at += out.back().size() + 1)
    out.emplace_back(ended_by_nul.c_str() + at);
  return out;
}

template <typename T>
Column<T> read(void* file, const std::string& column, int32_t dtype) {
  lf_tensor tensor = sdk::with_header<lf_tensor>();
  lf_err err = sdk::make_err();
  sdk::check(table().numbers(file, column.c_str(), dtype, &tensor, &err), err);
  const T* values = static_cast<const T*>(tensor.data);
  Column<T> out{tensor.shape[0], tensor.shape[1], {values, values + tensor.shape[0] * tensor.shape[1]}};
  sdk::release(tensor);
  return out;
}

}  // namespace

void ParquetFile::Close::operator()(void* file) const { table().close(file); }

ParquetFile::ParquetFile(std::string path) : path_(std::move(path)) {
  void* file = nullptr;
  lf_err err = sdk::make_err();
  sdk::check(table().open(path_.c_str(), &file, &err), err);
  file_.reset(file);
}

int64_t ParquetFile::rows() const { return table().rows(file_.get()); }

std::vector<std::string> ParquetFile::columns() const {
  std::string names;
  lf_err err = sdk::make_err();
  sdk::check(table().columns(file_.get(), sdk::string_sink(names), &err), err);
  return split(names);
}

bool ParquetFile::has(const std::string& column) const {
  const std::vector<std::string> all = columns();
  return std::find(all.begin(), all.end(), column) != all.end();
}

Column<float> ParquetFile::floats(const std::string& column) const {
  return read<float>(file_.get(), column, LF_DTYPE_F32);
}

Column<double> ParquetFile::doubles(const std::string& column) const {
  return read<double>(file_.get(), column, LF_DTYPE_F64);
}

Column<int64_t> ParquetFile::integers(const std::string& column) const {
  Column<int64_t> out = read<int64_t>(file_.get(), column, LF_DTYPE_I64);
  if (out.width != 1)
    throw sdk::Failure(LF_E_DATA,
                       fmt::format("{}: column \"{}\": expected one integer a row, got {}", path_, column, out.width));
  return out;
}

std::vector<std::string> ParquetFile::texts(const std::string& column) const {
  std::string ended_by_nul;
  lf_err err = sdk::make_err();
  sdk::check(table().texts(file_.get(), column.c_str(), sdk::string_sink(ended_by_nul), &err), err);
  return split(ended_by_nul);
}

std::string ParquetFile::picture(const std::string& column, int64_t row) const {
  std::string bytes;
  lf_err err = sdk::make_err();
  sdk::check(table().picture(file_.get(), column.c_str(), row, sdk::string_sink(bytes), &err), err);
  return bytes;
}

}  // namespace lf::robot
