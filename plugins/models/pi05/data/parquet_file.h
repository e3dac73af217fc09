// A Parquet file, read column by column.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace lf::robot {

template <typename T>
struct Column {
  int64_t rows = 0, width = 1;
  std::vector<T> values;  // [rows, width]
};

// Any thread. Failures are sdk::Failure LF_E_DATA beginning with the path, or LF_E_UNSUPPORTED where liblfparquet.so
// cannot be loaded.
class ParquetFile {
 public:
  explicit ParquetFile(std::string path);

  int64_t rows() const;
  std::vector<std::string> columns() const;
  bool has(const std::string& column) const;

  // One number a row, or as many in each. Nulls, and reals read as integers, are refused.
  Column<float> floats(const std::string& column) const;
  Column<double> doubles(const std::string& column) const;
  Column<int64_t> integers(const std::string& column) const;  // one a row
  std::vector<std::string> texts(const std::string& column) const;
  // The bytes of a picture's file.
  std::string picture(const std::string& column, int64_t row) const;

  const std::string& path() const { return path_; }

 private:
  struct Close {
    void operator()(void* file) const;
  };
  std::string path_;
  std::unique_ptr<void, Close> file_;
};

}  // namespace lf::robot
