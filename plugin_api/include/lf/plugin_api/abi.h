/* The ground rules of the lfrun plugin ABI: sizes, strings, errors. Frozen for ever; every other header builds on it.
 *
 * C11 and C++11 and up, LP64, little endian. Nothing but fixed-width integers, double and pointers crosses the border;
 * no bool, no enum type, no long, no bit-field, no C++ type, no exception. Enumerators below are int32_t values; an
 * unknown value is answered with LF_E_UNSUPPORTED.
 *
 * Growth. Every table and struct starts with lf_hdr. A newer version may only append members. A reader uses a member
 * only where LF_HAS says that it is there; sizes are never compared for equality. Zero is the default of every member
 * that will ever be added.
 *
 * Thread words, used in every comment:
 *   [main]  the thread that started the worker; never at the same time as any other call on the same object
 *   [step]  the thread that runs training steps; calls on one object never overlap
 *   [io]    one of several loader threads; calls on one object may overlap
 *   [any]   any thread, at any time between start and stop
 */
#ifndef LF_PLUGIN_API_ABI_H
#define LF_PLUGIN_API_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define LF_STATIC_ASSERT(condition, text) static_assert(condition, text)
#else
#define LF_STATIC_ASSERT(condition, text) _Static_assert(condition, text)
#endif

#define LF_EXPORT __attribute__((visibility("default")))

/* The version of the ABI as a whole; while the major is 0, the minor must match exactly. */
#define LF_ABI_MAJOR 0
#define LF_ABI_MINOR 1

#ifdef __cplusplus
extern "C" {
#endif

/* First in every table and struct. `size` is sizeof the struct as its writer knew it. */
typedef struct lf_hdr {
  uint32_t size;
  uint16_t major, minor;
} lf_hdr;

/* UTF-8 bytes, no terminating NUL promised, borrowed for the call unless a comment says otherwise. */
typedef struct lf_str {
  const char *data;
  uint64_t size;
} lf_str;

/* Where a callee writes output of unknown length: the caller's memory, so nothing allocated on one side is freed on
 * the other. `put` may be called several times, bytes are appended; it returns an LF_E_ code, to be passed on. */
typedef struct lf_sink {
  void *context;
  int32_t (*put)(void *context, const void *bytes, uint64_t size);
} lf_sink;

/* Filled by the callee of any function that did not return LF_OK. Owned by the caller, which sets `size`. The message
 * names the place, what was expected, what came, and the next move. `native` is a vendor's own code. */
typedef struct lf_err {
  uint32_t size;
  int32_t code;
  int64_t native;
  char domain[16];
  char message[480];
} lf_err;

/* Codes say what the caller can do next. */
enum {
  LF_OK = 0,
  LF_E_INVALID = 1,     /* an argument or a setting is wrong: mend it */
  LF_E_UNSUPPORTED = 2, /* not offered: ask for less */
  LF_E_NOMEM_HOST = 3,
  LF_E_NOMEM_DEVICE = 4, /* shrink the work and try again */
  LF_E_NO_DEVICE = 5,
  LF_E_TIMEOUT = 6,
  LF_E_ABORTED = 7,     /* a group was torn down; drop the micro-batch and rebuild */
  LF_E_DEVICE_LOST = 8, /* only a new process helps */
  LF_E_COMM = 9,        /* a peer is gone; rebuild communicators */
  LF_E_NOT_READY = 10,
  LF_E_ABI = 11,
  LF_E_EXCEPTION = 12, /* something was thrown inside the callee; the message has its text */
  LF_E_DATA = 13,      /* a sample or a file is bad; the message names it */
  LF_E_BUG = 14
};

LF_STATIC_ASSERT(sizeof(void *) == 8, "lfrun plugins are LP64");
LF_STATIC_ASSERT(sizeof(lf_hdr) == 8, "lf_hdr is frozen");
LF_STATIC_ASSERT(sizeof(lf_str) == 16, "lf_str is frozen");
LF_STATIC_ASSERT(sizeof(lf_err) == 512, "lf_err is frozen");

/* True where `table` is given, knows `member`, and it is not null. */
#define LF_HAS(table, member)                                                                                \
  ((table) != NULL && (table)->h.size >= offsetof(__typeof__(*(table)), member) + sizeof((table)->member) && \
   (table)->member != 0)

/* Element types of tensors. Values never change. */
enum {
  LF_DTYPE_F32 = 1,
  LF_DTYPE_BF16 = 2,
  LF_DTYPE_F16 = 3,
  LF_DTYPE_F64 = 4,
  LF_DTYPE_I64 = 5,
  LF_DTYPE_I32 = 6,
  LF_DTYPE_U8 = 7,
  LF_DTYPE_BOOL = 8,
  LF_DTYPE_F8_E4M3 = 9,
  LF_DTYPE_I16 = 10,
  LF_DTYPE_I8 = 11
};

#ifdef __cplusplus
}
#endif
#endif
