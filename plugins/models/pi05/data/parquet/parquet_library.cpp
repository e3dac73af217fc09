#include "pi05/data/parquet/parquet_library.h"

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <fmt/format.h>
#include <parquet/arrow/reader.h>
#include <parquet/column_reader.h>
#include <parquet/file_reader.h>

#include "lf/plugin_sdk/guard.hpp"
#include "lf/plugin_sdk/tensor.hpp"

namespace lf::robot {
namespace {

constexpr int64_t kMostNumbers = int64_t{1} << 32;  // of one column of a file

class File {
 public:
  explicit File(const char* path) : path_(path) {
    try {
      file_ = take(arrow::io::ReadableFile::Open(path_));
      meta_ = parquet::ParquetFileReader::Open(file_)->metadata();
    } catch (const parquet::ParquetException& error) {
      fail(fmt::format("expected a Parquet file, got: {}", first_line(error.what())));
    }
    rows_ = meta_->num_rows();
    const auto& schema = *meta_->schema();
    for (int i = 0; i < schema.num_columns(); ++i) {
      const std::string root = schema.GetColumnRoot(i)->name();
      if (columns_.empty() || columns_.back() != root) columns_.push_back(root);
    }
  }

  int64_t rows() const { return rows_; }
  const std::vector<std::string>& columns() const { return columns_; }

  template <typename T>
  lf_tensor numbers(std::string_view column, int32_t dtype) const {
    std::vector<T> out;
    int64_t width = -1, row = 0;
    const auto whole = read(column);
    for (const auto& chunk : whole->chunks()) append(*chunk, column, out, width, row);
    if (row != rows_) fail_at(column, fmt::format("expected {} rows, got {}", rows_, row));
    if (width < 0) width = 1;  // of a file without rows
    const int64_t shape[] = {rows_, width};
    return sdk::give(std::move(out), dtype, shape);
  }

  void texts(std::string_view column, const lf_sink& sink) const {
    const auto whole = read(column);
    const auto put = [&](std::string_view text) {
      if (text.find('\0') != text.npos) fail_at(column, "a text with a NUL in it");
      sdk::put(sink, std::string(text) + '\0');
    };
    for (const auto& chunk : whole->chunks()) {
      if (chunk->null_count() > 0) fail_at(column, "expected a text in each row, got null");
      if (const auto* small = dynamic_cast<const arrow::StringArray*>(chunk.get())) {
        for (int64_t i = 0; i < small->length(); ++i) put(small->GetView(i));
      } else if (const auto* large = dynamic_cast<const arrow::LargeStringArray*>(chunk.get())) {
        for (int64_t i = 0; i < large->length(); ++i) put(large->GetView(i));
      } else {
        fail_at(column, fmt::format("expected texts, got {}", chunk->type()->ToString()));
      }
    }
  }

  // Skips to the row: pages before it are passed over, and of the row's group only this column is touched.
  void picture(std::string_view column, int64_t row, const lf_sink& sink) const {
    const auto& schema = *meta_->schema();
    const int leaf = schema.ColumnIndex(std::string(column) + ".bytes");
    if (leaf < 0) fail_at(column, "expected pictures as {bytes, path}");
    int64_t skip = row;
    int group = 0;
    while (group < meta_->num_row_groups() && skip >= meta_->RowGroup(group)->num_rows())
      skip -= meta_->RowGroup(group++)->num_rows();
    if (row < 0 || group == meta_->num_row_groups()) fail(fmt::format("row {} of {}", row, rows_));
    try {
      const auto reader = parquet::ParquetFileReader::Open(file_, parquet::default_reader_properties(), meta_);
      const auto pages = reader->RowGroup(group)->Column(leaf);
      auto* bytes = dynamic_cast<parquet::ByteArrayReader*>(pages.get());
      if (bytes == nullptr || schema.Column(leaf)->max_repetition_level() > 0)
        fail_at(column, "expected pictures as {bytes, path}");
      bytes->Skip(skip);
      parquet::ByteArray value;
      int16_t level = 0;
      int64_t read = 0;
      bytes->ReadBatch(1, &level, nullptr, &value, &read);
      if (read != 1) fail_at(column, fmt::format("expected a picture in row {}, got null", row));
      sdk::put(sink, value.ptr, value.len);
    } catch (const parquet::ParquetException& error) {
      fail_at(column, first_line(error.what()));
    }
  }

 private:
  [[noreturn]] void fail(const std::string& reason) const {
    throw sdk::Failure(LF_E_DATA, fmt::format("{}: {}", path_, reason));
  }
  [[noreturn]] void fail_at(std::string_view column, const std::string& reason) const {
    fail(fmt::format("column \"{}\": {}", column, reason));
  }
  static std::string first_line(std::string_view text) { return std::string(text.substr(0, text.find('\n'))); }

  void check(const arrow::Status& status) const {
    if (!status.ok()) fail(first_line(status.message()));
  }
  template <typename T>
  T take(arrow::Result<T> result) const {
    check(result.status());
    return std::move(result).ValueUnsafe();
  }

  std::shared_ptr<arrow::ChunkedArray> read(std::string_view column) const {
    const auto found = std::find(columns_.begin(), columns_.end(), column);
    if (found == columns_.end())
      fail(fmt::format("expected a column \"{}\", got {}", column, fmt::join(columns_, ", ")));
    try {
      std::unique_ptr<parquet::arrow::FileReader> reader;
      check(parquet::arrow::FileReader::Make(
          arrow::default_memory_pool(),
          parquet::ParquetFileReader::Open(file_, parquet::default_reader_properties(), meta_), &reader));
      std::shared_ptr<arrow::ChunkedArray> out;
      check(reader->ReadColumn(static_cast<int>(found - columns_.begin()), &out));
      return out;
    } catch (const parquet::ParquetException& error) {
      fail_at(column, first_line(error.what()));
    }
  }

  // Lists become their values, in order; `width` is settled by the first row.
  template <typename T>
  void append(const arrow::Array& array, std::string_view column, std::vector<T>& out, int64_t& width,
              int64_t& row) const {
    const int64_t first_row = row;
    row += array.length();
    if (array.length() == 0) return;
    if (array.null_count() > 0) {
      int64_t i = 0;
      while (!array.IsNull(i)) ++i;
      fail_at(column, fmt::format("expected numbers in row {}, got null", first_row + i));
    }
    const auto widths = [&](int64_t i, int64_t length) {
      if (width < 0) width = length;
      if (width < 1 || length != width || width > kMostNumbers / std::max<int64_t>(rows_, 1))
        fail_at(column, fmt::format("expected {} numbers in row {}, got {}", std::max<int64_t>(width, 1), first_row + i,
                                    length));
    };
    const auto lists = [&](const auto& list) {
      for (int64_t i = 0; i < list.length(); ++i) widths(i, list.value_length(i));
      const auto from = list.value_offset(0);
      values(*list.values()->Slice(from, list.value_offset(list.length()) - from), column, out);
    };
    if (const auto* fixed = dynamic_cast<const arrow::FixedSizeListArray*>(&array)) {
      lists(*fixed);
    } else if (const auto* list = dynamic_cast<const arrow::ListArray*>(&array)) {
      lists(*list);
    } else if (const auto* large = dynamic_cast<const arrow::LargeListArray*>(&array)) {
      lists(*large);
    } else {
      widths(0, 1);
      values(array, column, out);
    }
  }

  template <typename T>
  void values(const arrow::Array& array, std::string_view column, std::vector<T>& out) const {
    if (array.null_count() > 0) fail_at(column, "expected numbers, got a list with null in it");
    const auto copy = [&](const auto& typed) {
      using Value = std::decay_t<decltype(typed.Value(0))>;
      if constexpr (std::is_integral_v<T> && std::is_floating_point_v<Value>) {
        fail_at(column, fmt::format("expected integers, got {}", array.type()->ToString()));
      } else {
        out.reserve(out.size() + static_cast<size_t>(array.length()));
        for (int64_t i = 0; i < array.length(); ++i) out.push_back(static_cast<T>(typed.Value(i)));
      }
    };
    switch (array.type_id()) {
      case arrow::Type::FLOAT:
        return copy(static_cast<const arrow::FloatArray&>(array));
      case arrow::Type::DOUBLE:
        return copy(static_cast<const arrow::DoubleArray&>(array));
      case arrow::Type::INT64:
        return copy(static_cast<const arrow::Int64Array&>(array));
      case arrow::Type::INT32:
        return copy(static_cast<const arrow::Int32Array&>(array));
      case arrow::Type::INT16:
        return copy(static_cast<const arrow::Int16Array&>(array));
      case arrow::Type::INT8:
        return copy(static_cast<const arrow::Int8Array&>(array));
      case arrow::Type::UINT8:
        return copy(static_cast<const arrow::UInt8Array&>(array));
      case arrow::Type::BOOL:
        return copy(static_cast<const arrow::BooleanArray&>(array));
      default:
        fail_at(column, fmt::format("expected numbers, got {}", array.type()->ToString()));
    }
  }

  std::string path_;
  std::shared_ptr<arrow::io::ReadableFile> file_;
  std::shared_ptr<parquet::FileMetaData> meta_;
  int64_t rows_ = 0;
  std::vector<std::string> columns_;
};

File& of(void* file) { return *static_cast<File*>(file); }

int32_t open(const char* path, void** file, lf_err* err) {
  return sdk::guard(err, [&] { *file = std::make_unique<File>(path).release(); });
}

void close(void* file) { delete static_cast<File*>(file); }

int64_t rows(void* file) { return of(file).rows(); }

int32_t columns(void* file, lf_sink names, lf_err* err) {
  return sdk::guard(err, [&] {
    for (const std::string& name : of(file).columns()) sdk::put(names, name + '\0');
  });
}

int32_t numbers(void* file, const char* column, int32_t dtype, lf_tensor* out, lf_err* err) {
  return sdk::guard(err, [&] {
    *out = dtype == LF_DTYPE_F32   ? of(file).numbers<float>(column, dtype)
           : dtype == LF_DTYPE_F64 ? of(file).numbers<double>(column, dtype)
                                   : of(file).numbers<int64_t>(column, dtype);
  });
}

int32_t texts(void* file, const char* column, lf_sink out, lf_err* err) {
  return sdk::guard(err, [&] { of(file).texts(column, out); });
}

int32_t picture(void* file, const char* column, int64_t row, lf_sink bytes, lf_err* err) {
  return sdk::guard(err, [&] { of(file).picture(column, row, bytes); });
}

constexpr ParquetTable kTable = {open, close, rows, columns, numbers, texts, picture};

}  // namespace

const ParquetTable* lf_parquet_table() { return &kTable; }

}  // namespace lf::robot
