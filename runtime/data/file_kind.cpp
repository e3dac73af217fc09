#include "data/file_kind.h"

#include <utility>

namespace lf {
namespace {

using namespace std::string_view_literals;

constexpr std::pair<std::string_view, const char*> kSignatures[] = {
    {"\x1F\x8B"sv, "a gzip file; decompress it first"},
    {"\x28\xB5\x2F\xFD"sv, "a zstd file; decompress it first"},
    {"\xFD"
     "7zXZ\0"sv,
     "an xz file; decompress it first"},
    {"PK\x03\x04"sv, "a zip file; unpack it first"},
    {"PAR1"sv, "a Parquet file; write its rows as JSON lines first"},
    {"\xFF\xFE\0\0"sv, "text in UTF-32; expected UTF-8: iconv -f UTF-32 -t UTF-8"},
    {"\0\0\xFE\xFF"sv, "text in UTF-32; expected UTF-8: iconv -f UTF-32 -t UTF-8"},
    {"\xFF\xFE"sv, "text in UTF-16; expected UTF-8: iconv -f UTF-16 -t UTF-8"},
    {"\xFE\xFF"sv, "text in UTF-16; expected UTF-8: iconv -f UTF-16 -t UTF-8"},
};

// Without a byte order mark: JSON begins with two ASCII characters, so the zeros tell (RFC 4627, section 3).
bool is_unmarked_utf16(std::string_view head) {
  return head.size() >= 4 && ((head[0] != 0 && head[1] == 0 && head[2] != 0 && head[3] == 0) ||
                              (head[0] == 0 && head[1] != 0 && head[2] == 0 && head[3] != 0));
}

}  // namespace

std::string why_not_json_lines(std::string_view head) {
  for (const auto& [signature, what] : kSignatures)
    if (head.starts_with(signature)) return what;
  if (is_unmarked_utf16(head)) return "text in UTF-16; expected UTF-8: iconv -f UTF-16 -t UTF-8";
  if (head.starts_with("\xEF\xBB\xBF")) head.remove_prefix(3);
  const size_t first = head.find_first_not_of(" \t\r\n");
  if (first != head.npos && head[first] == '[')
    return "one JSON list; expected one object a line: jq -c '.[]' turns it into that";
  return "";
}

}  // namespace lf
