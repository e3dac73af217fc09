// The vendor's collectives as the simulator plays them, declared in our own words. As the vendor's, a C++ header
// without extern "C". Three flavours, since neither the linkage nor the numbers of the real library are known to us:
//   (none)               plain C names
//   LF_SIM_BKCL_MANGLED  global C++ functions; the numbers are deliberately odd, the unique id is larger
//   LF_SIM_BKCL_SPACED   the same inside a namespace
#pragma once

#include <cstddef>

#include "xpu/runtime.h"

#if defined(LF_SIM_BKCL_MANGLED) || defined(LF_SIM_BKCL_SPACED)
#define LF_SIM_BKCL_ODD 1
#endif

#if defined(LF_SIM_BKCL_SPACED)
namespace baidu::xpu::bkcl {
#elif !defined(LF_SIM_BKCL_ODD)
extern "C" {
#endif

#ifdef LF_SIM_BKCL_ODD
#define BKCL_UNIQUE_ID_BYTES 216
enum BKCLResult_t {
  BKCL_SUCCESS = 0,
  BKCL_INVALID_ARGUMENT = 31,
  BKCL_RUNTIME_ERROR = 12,
  BKCL_SYSTEM_ERROR = 44,
  BKCL_INTERNAL_ERROR = 8
};
enum BKCLDataType {
  BKCL_UINT8 = 11,
  BKCL_INT32 = 7,
  BKCL_INT64 = 3,
  BKCL_FLOAT16 = 19,
  BKCL_FLOAT = 2,
  BKCL_FLOAT64 = 23,
  BKCL_BFLOAT16 = 5
};
enum BKCLOp { BKCL_ADD = 4, BKCL_PRODUCT = 1, BKCL_MIN = 9, BKCL_MAX = 6 };
#else
#define BKCL_UNIQUE_ID_BYTES 128
enum BKCLResult_t {
  BKCL_SUCCESS = 0,
  BKCL_INVALID_ARGUMENT,
  BKCL_RUNTIME_ERROR,
  BKCL_SYSTEM_ERROR,
  BKCL_INTERNAL_ERROR
};
enum BKCLDataType { BKCL_UINT8, BKCL_INT32, BKCL_INT64, BKCL_FLOAT16, BKCL_FLOAT, BKCL_FLOAT64, BKCL_BFLOAT16 };
enum BKCLOp { BKCL_ADD, BKCL_PRODUCT, BKCL_MIN, BKCL_MAX };
#endif

struct BKCLUniqueId {
  char bytes[BKCL_UNIQUE_ID_BYTES];
};
typedef struct BKCLContext* BKCLContext_t;

LF_SIM_EXPORT BKCLResult_t bkcl_get_unique_id(BKCLUniqueId* id);
LF_SIM_EXPORT BKCLResult_t bkcl_init_rank(BKCLContext_t* context, int rank, int nranks, BKCLUniqueId* id);
LF_SIM_EXPORT BKCLResult_t bkcl_destroy_context(BKCLContext_t context);
LF_SIM_EXPORT BKCLResult_t bkcl_comm_abort(BKCLContext_t context);
LF_SIM_EXPORT BKCLResult_t bkcl_comm_count(BKCLContext_t context, int* count);
LF_SIM_EXPORT BKCLResult_t bkcl_group_start();
LF_SIM_EXPORT BKCLResult_t bkcl_group_end();
LF_SIM_EXPORT BKCLResult_t bkcl_all_reduce(BKCLContext_t context, const void* send, void* recv, size_t count,
                                           BKCLDataType type, BKCLOp op, XPUStream stream);
LF_SIM_EXPORT BKCLResult_t bkcl_broadcast(BKCLContext_t context, const void* send, void* recv, size_t count,
                                          BKCLDataType type, int root, XPUStream stream);
LF_SIM_EXPORT BKCLResult_t bkcl_all_gather(BKCLContext_t context, const void* send, size_t count, void* recv,
                                           BKCLDataType type, XPUStream stream);
LF_SIM_EXPORT BKCLResult_t bkcl_reduce_scatter(BKCLContext_t context, const void* send, void* recv, size_t count,
                                               BKCLDataType type, BKCLOp op, XPUStream stream);
// The four arrays are device memory of nranks elements each.
LF_SIM_EXPORT BKCLResult_t bkcl_all_to_all_v(BKCLContext_t context, const void* send, const size_t* send_counts,
                                             const size_t* send_offsets, BKCLDataType type, void* recv,
                                             const size_t* recv_counts, const size_t* recv_offsets,
                                             BKCLDataType recv_type, XPUStream stream);
LF_SIM_EXPORT BKCLResult_t bkcl_send(BKCLContext_t context, const void* buffer, size_t count, int peer,
                                     BKCLDataType type, XPUStream stream);
LF_SIM_EXPORT BKCLResult_t bkcl_recv(BKCLContext_t context, void* buffer, size_t count, int peer, BKCLDataType type,
                                     XPUStream stream);

#if defined(LF_SIM_BKCL_SPACED)
}
#elif !defined(LF_SIM_BKCL_ODD)
}
#endif
