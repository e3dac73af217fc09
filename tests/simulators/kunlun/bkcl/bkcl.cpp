// The exported functions of the simulated libbkcl.so, in whichever flavour bkcl.h is compiled.
#include "bkcl.h"

#include <memory>
#include <utility>

#include "calls.h"
#include "collectives.h"
#include "rendezvous.h"

#ifdef LF_SIM_BKCL_SPACED
namespace baidu::xpu::bkcl {
#endif

struct BKCLContext {
  std::shared_ptr<lf::sim::Communicator> ranks;  // shared with calls still queued on streams
};

namespace {

using lf::sim::Element;
using lf::sim::Reduction;

bool to_element(BKCLDataType type, Element& element) {
  switch (type) {
    case BKCL_UINT8:
      return element = Element::kU8, true;
    case BKCL_INT32:
      return element = Element::kI32, true;
    case BKCL_INT64:
      return element = Element::kI64, true;
    case BKCL_FLOAT16:
      return element = Element::kF16, true;
    case BKCL_FLOAT:
      return element = Element::kF32, true;
    case BKCL_FLOAT64:
      return element = Element::kF64, true;
    case BKCL_BFLOAT16:
      return element = Element::kBf16, true;
  }
  return false;
}

bool to_reduction(BKCLOp op, Reduction& reduction) {
  switch (op) {
    case BKCL_ADD:
      return reduction = Reduction::kAdd, true;
    case BKCL_PRODUCT:
      return reduction = Reduction::kProduct, true;
    case BKCL_MIN:
      return reduction = Reduction::kMin, true;
    case BKCL_MAX:
      return reduction = Reduction::kMax, true;
  }
  return false;
}

std::byte* bytes_of(const void* memory, size_t bytes) {
  return static_cast<std::byte*>(lf_sim_xpu_bytes(memory, bytes));
}

BKCLResult_t submit(lf::sim::Call call) { return lf::sim::submit(std::move(call)) ? BKCL_SUCCESS : BKCL_RUNTIME_ERROR; }

// Scripted faults first, then a communicator that is beyond use.
BKCLResult_t usable(const char* function, BKCLContext_t context) {
  if (const int code = lf_sim_xpu_fault(function); code != 0) return static_cast<BKCLResult_t>(code);
  if (context == nullptr) return BKCL_INVALID_ARGUMENT;
  return context->ranks->broken() ? BKCL_SYSTEM_ERROR : BKCL_SUCCESS;
}

}  // namespace

BKCLResult_t bkcl_get_unique_id(BKCLUniqueId* id) {
  lf::sim::open_rendezvous(id->bytes);
  return BKCL_SUCCESS;
}

BKCLResult_t bkcl_init_rank(BKCLContext_t* context, int rank, int nranks, BKCLUniqueId* id) {
  if (const int code = lf_sim_xpu_fault("bkcl_init_rank"); code != 0) return static_cast<BKCLResult_t>(code);
  if (rank < 0 || rank >= nranks) return BKCL_INVALID_ARGUMENT;
  const int memory = lf::sim::join_rendezvous(id->bytes, rank, nranks);
  if (memory == -2) return BKCL_INVALID_ARGUMENT;
  if (memory < 0) return BKCL_SYSTEM_ERROR;
  *context = new BKCLContext{std::make_shared<lf::sim::Communicator>(memory, rank, nranks)};
  return BKCL_SUCCESS;
}

BKCLResult_t bkcl_destroy_context(BKCLContext_t context) {
  if (context == nullptr) return BKCL_INVALID_ARGUMENT;
  delete context;
  return BKCL_SUCCESS;
}

BKCLResult_t bkcl_comm_abort(BKCLContext_t context) {
  if (context == nullptr) return BKCL_INVALID_ARGUMENT;
  context->ranks->abort();
  return BKCL_SUCCESS;
}

BKCLResult_t bkcl_comm_count(BKCLContext_t context, int* count) {
  const BKCLResult_t result = usable("bkcl_comm_count", context);
  if (result == BKCL_SUCCESS) *count = context->ranks->size();
  return result;
}

BKCLResult_t bkcl_group_start() { return lf::sim::group_start(), BKCL_SUCCESS; }

BKCLResult_t bkcl_group_end() { return lf::sim::group_end() ? BKCL_SUCCESS : BKCL_RUNTIME_ERROR; }

BKCLResult_t bkcl_all_reduce(BKCLContext_t context, const void* send, void* recv, size_t count, BKCLDataType type,
                             BKCLOp op, XPUStream stream) {
  if (const auto result = usable("bkcl_all_reduce", context); result != BKCL_SUCCESS) return result;
  Element element;
  Reduction reduction;
  if (!to_element(type, element) || !to_reduction(op, reduction)) return BKCL_INVALID_ARGUMENT;
  const size_t bytes = count * element_bytes(element);
  const std::byte* in = bytes_of(send, bytes);
  std::byte* out = bytes_of(recv, bytes);
  if (in == nullptr || out == nullptr) return BKCL_INVALID_ARGUMENT;
  return submit({context->ranks,
                 stream,
                 [=, ranks = context->ranks] { return all_reduce(*ranks, in, out, count, element, reduction); },
                 {}});
}

BKCLResult_t bkcl_broadcast(BKCLContext_t context, const void* send, void* recv, size_t count, BKCLDataType type,
                            int root, XPUStream stream) {
  if (const auto result = usable("bkcl_broadcast", context); result != BKCL_SUCCESS) return result;
  Element element;
  if (!to_element(type, element) || root < 0 || root >= context->ranks->size()) return BKCL_INVALID_ARGUMENT;
  const size_t bytes = count * element_bytes(element);
  const std::byte* in = context->ranks->rank() == root ? bytes_of(send, bytes) : nullptr;
  std::byte* out = bytes_of(recv, bytes);
  if (out == nullptr || (context->ranks->rank() == root && in == nullptr)) return BKCL_INVALID_ARGUMENT;
  return submit(
      {context->ranks, stream, [=, ranks = context->ranks] { return broadcast(*ranks, in, out, bytes, root); }, {}});
}

BKCLResult_t bkcl_all_gather(BKCLContext_t context, const void* send, size_t count, void* recv, BKCLDataType type,
                             XPUStream stream) {
  if (const auto result = usable("bkcl_all_gather", context); result != BKCL_SUCCESS) return result;
  Element element;
  if (!to_element(type, element)) return BKCL_INVALID_ARGUMENT;
  const size_t bytes = count * element_bytes(element);
  const std::byte* in = bytes_of(send, bytes);
  std::byte* out = bytes_of(recv, bytes * context->ranks->size());
  if (in == nullptr || out == nullptr) return BKCL_INVALID_ARGUMENT;
  return submit(
      {context->ranks, stream, [=, ranks = context->ranks] { return all_gather(*ranks, in, out, bytes); }, {}});
}

BKCLResult_t bkcl_reduce_scatter(BKCLContext_t context, const void* send, void* recv, size_t count, BKCLDataType type,
                                 BKCLOp op, XPUStream stream) {
  if (const auto result = usable("bkcl_reduce_scatter", context); result != BKCL_SUCCESS) return result;
  Element element;
  Reduction reduction;
  if (!to_element(type, element) || !to_reduction(op, reduction)) return BKCL_INVALID_ARGUMENT;
  const size_t bytes = count * element_bytes(element);
  const std::byte* in = bytes_of(send, bytes * context->ranks->size());
  std::byte* out = bytes_of(recv, bytes);
  if (in == nullptr || out == nullptr) return BKCL_INVALID_ARGUMENT;
  return submit({context->ranks,
                 stream,
                 [=, ranks = context->ranks] { return reduce_scatter(*ranks, in, out, count, element, reduction); },
                 {}});
}

BKCLResult_t bkcl_all_to_all_v(BKCLContext_t context, const void* send, const size_t* send_counts,
                               const size_t* send_offsets, BKCLDataType type, void* recv, const size_t* recv_counts,
                               const size_t* recv_offsets, BKCLDataType recv_type, XPUStream stream) {
  if (const auto result = usable("bkcl_all_to_all_v", context); result != BKCL_SUCCESS) return result;
  Element element;
  if (!to_element(type, element) || type != recv_type) return BKCL_INVALID_ARGUMENT;
  const size_t array = context->ranks->size() * sizeof(size_t);
  const void* arrays[] = {bytes_of(send_counts, array), bytes_of(send_offsets, array), bytes_of(recv_counts, array),
                          bytes_of(recv_offsets, array)};
  for (const void* given : arrays)
    if (given == nullptr) return BKCL_INVALID_ARGUMENT;  // host arrays: the mistake everybody makes once
  const std::byte* in = bytes_of(send, 1);
  std::byte* out = bytes_of(recv, 1);
  if (in == nullptr || out == nullptr) return BKCL_INVALID_ARGUMENT;
  const auto sizes = [&](int i) { return static_cast<const size_t*>(arrays[i]); };
  return submit({context->ranks,
                 stream,
                 [=, ranks = context->ranks, a = sizes(0), b = sizes(1), c = sizes(2), d = sizes(3)] {
                   return all_to_all_v(*ranks, in, a, b, out, c, d, element_bytes(element));
                 },
                 {}});
}

BKCLResult_t bkcl_send(BKCLContext_t context, const void* buffer, size_t count, int peer, BKCLDataType type,
                       XPUStream stream) {
  if (const auto result = usable("bkcl_send", context); result != BKCL_SUCCESS) return result;
  Element element;
  if (!to_element(type, element) || peer < 0 || peer >= context->ranks->size()) return BKCL_INVALID_ARGUMENT;
  const size_t bytes = count * element_bytes(element);
  std::byte* data = bytes_of(buffer, bytes);
  return data == nullptr ? BKCL_INVALID_ARGUMENT : submit({context->ranks, stream, {}, {{peer, true, data, bytes}}});
}

BKCLResult_t bkcl_recv(BKCLContext_t context, void* buffer, size_t count, int peer, BKCLDataType type,
                       XPUStream stream) {
  if (const auto result = usable("bkcl_recv", context); result != BKCL_SUCCESS) return result;
  Element element;
  if (!to_element(type, element) || peer < 0 || peer >= context->ranks->size()) return BKCL_INVALID_ARGUMENT;
  const size_t bytes = count * element_bytes(element);
  std::byte* data = bytes_of(buffer, bytes);
  return data == nullptr ? BKCL_INVALID_ARGUMENT : submit({context->ranks, stream, {}, {{peer, false, data, bytes}}});
}

#ifdef LF_SIM_BKCL_SPACED
}  // namespace baidu::xpu::bkcl
#endif
