#include "load/common_error.h"

#include "core/error.h"
#include "load/wire.h"

namespace lf {
namespace {

std::string failure(Exit exit, const char* text) {
  WireWriter out;
  out.put(static_cast<int32_t>(exit));
  out.put(std::string_view(text));
  return out.take();
}

}  // namespace

std::string result_message(const Stamp& stamp, const std::string& result) {
  WireWriter out;
  out.put(static_cast<int32_t>(Exit::kDone));
  out.put(std::string_view(stamp.what));
  out.put(stamp.number);
  return out.take() + result;
}

std::string error_message(std::exception_ptr error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    return failure(known.exit(), known.what());
  } catch (const std::exception& other) {
    return failure(Exit::kBug, other.what());
  }
}

std::vector<std::string> results_or_fail(std::vector<std::string> messages) {
  std::string of_first;
  for (size_t rank = 0; rank < messages.size(); ++rank) {
    WireReader in(messages[rank]);
    const auto exit = static_cast<Exit>(in.get<int32_t>());
    if (exit != Exit::kDone) {
      const std::string text = in.text();
      if (messages.size() == 1) throw Error(exit, text);
      fail(exit, "rank {}: {}", rank, text);
    }
    const std::string what = in.text();
    const std::string stamp = fmt::format("{} {}", what, in.get<int64_t>());
    if (rank == 0) of_first = stamp;
    if (stamp != of_first)
      fail(Exit::kBug,
           "loader: rank {} is at {} while rank 0 is at {}; all ranks must run the same build on the same job and data",
           rank, stamp, of_first);
    messages[rank].erase(0, sizeof(int32_t) + sizeof(uint64_t) + what.size() + sizeof(int64_t));
  }
  return messages;
}

}  // namespace lf
