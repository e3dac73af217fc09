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

std::string result_message(std::string result) {
  WireWriter out;
  out.put(static_cast<int32_t>(Exit::kDone));
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
  for (size_t rank = 0; rank < messages.size(); ++rank) {
    WireReader in(messages[rank]);
    const auto exit = static_cast<Exit>(in.get<int32_t>());
    if (exit == Exit::kDone) continue;
    const std::string text = in.text();
    if (messages.size() == 1) throw Error(exit, text);
    fail(exit, "rank {}: {}", rank, text);
  }
  for (std::string& message : messages) message.erase(0, sizeof(int32_t));
  return messages;
}

}  // namespace lf
