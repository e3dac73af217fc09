// liblf_bkcl_shim.so: compile this file on the machine that has the vendor's bkcl.h, and put it beside libbkcl.so:
//
//   g++ -std=c++17 -O2 -fPIC -shared -I DIR_OF_BKCL_H bkcl_shim.cpp -o liblf_bkcl_shim.so -L DIR_OF_LIBBKCL -lbkcl
//
// The vendor's header is C++ without extern "C", so its library's names are mangled, and its enumerations have numbers
// that only the header tells. Add -DLF_SHIM_WITHOUT_ABORT or -DLF_SHIM_WITHOUT_ALL_TO_ALL_V where the header lacks
// them.
#include "bkcl_shim.h"

#include <bkcl.h>

namespace baidu {
namespace xpu {
namespace bkcl {}
}  // namespace xpu
}  // namespace baidu
using namespace baidu::xpu::bkcl;  // where some versions declare it

namespace {

using Context = BKCLContext_t;
using Stream = XPUStream;

BKCLDataType type_of(int32_t type) { return static_cast<BKCLDataType>(type); }
BKCLOp op_of(int32_t op) { return static_cast<BKCLOp>(op); }
Context context_of(void* context) { return static_cast<Context>(context); }

const lf_bkcl table = {
    sizeof(lf_bkcl),
    sizeof(BKCLUniqueId),
    BKCL_SUCCESS,
    BKCL_INVALID_ARGUMENT,
    BKCL_RUNTIME_ERROR,
    BKCL_SYSTEM_ERROR,
    BKCL_INTERNAL_ERROR,
    BKCL_UINT8,
    BKCL_INT32,
    BKCL_INT64,
    BKCL_FLOAT16,
    BKCL_FLOAT,
    BKCL_FLOAT64,
    BKCL_BFLOAT16,
    BKCL_ADD,
    BKCL_PRODUCT,
    BKCL_MIN,
    BKCL_MAX,
    [](void* id) -> int32_t { return bkcl_get_unique_id(static_cast<BKCLUniqueId*>(id)); },
    [](void** context, int rank, int size, void* id) -> int32_t {
      Context made{};
      const int32_t result = bkcl_init_rank(&made, rank, size, static_cast<BKCLUniqueId*>(id));
      *context = made;
      return result;
    },
    [](void* context) -> int32_t { return bkcl_destroy_context(context_of(context)); },
    [](void* context, int* count) -> int32_t { return bkcl_comm_count(context_of(context), count); },
    []() -> int32_t { return bkcl_group_start(); },
    []() -> int32_t { return bkcl_group_end(); },
    [](void* context, const void* in, void* out, size_t n, int32_t type, int32_t op, void* stream) -> int32_t {
      return bkcl_all_reduce(context_of(context), in, out, n, type_of(type), op_of(op), static_cast<Stream>(stream));
    },
    [](void* context, const void* in, void* out, size_t n, int32_t type, int root, void* stream) -> int32_t {
      return bkcl_broadcast(context_of(context), in, out, n, type_of(type), root, static_cast<Stream>(stream));
    },
    [](void* context, const void* in, size_t n, void* out, int32_t type, void* stream) -> int32_t {
      return bkcl_all_gather(context_of(context), in, n, out, type_of(type), static_cast<Stream>(stream));
    },
    [](void* context, const void* in, void* out, size_t n, int32_t type, int32_t op, void* stream) -> int32_t {
      return bkcl_reduce_scatter(context_of(context), in, out, n, type_of(type), op_of(op),
                                 static_cast<Stream>(stream));
    },
    [](void* context, const void* in, size_t n, int peer, int32_t type, void* stream) -> int32_t {
      return bkcl_send(context_of(context), in, n, peer, type_of(type), static_cast<Stream>(stream));
    },
    [](void* context, void* out, size_t n, int peer, int32_t type, void* stream) -> int32_t {
      return bkcl_recv(context_of(context), out, n, peer, type_of(type), static_cast<Stream>(stream));
    },
#ifdef LF_SHIM_WITHOUT_ABORT
    nullptr,
#else
    [](void* context) -> int32_t { return bkcl_comm_abort(context_of(context)); },
#endif
#ifdef LF_SHIM_WITHOUT_ALL_TO_ALL_V
    nullptr,
#else
    [](void* context, const void* in, const size_t* send_counts, const size_t* send_offsets, int32_t type, void* out,
       const size_t* recv_counts, const size_t* recv_offsets, int32_t recv_type, void* stream) -> int32_t {
      return bkcl_all_to_all_v(context_of(context), in, send_counts, send_offsets, type_of(type), out, recv_counts,
                               recv_offsets, type_of(recv_type), static_cast<Stream>(stream));
    },
#endif
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const lf_bkcl* lf_bkcl_shim_1(void) { return &table; }
