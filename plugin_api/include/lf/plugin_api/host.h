/* What the runtime lends to every plugin. Further abilities are extensions, asked for by id: lf.parallel/1, lf.media/1.
 */
#ifndef LF_PLUGIN_API_HOST_H
#define LF_PLUGIN_API_HOST_H

#include "lf/plugin_api/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { LF_LOG_DEBUG = 1, LF_LOG_INFO = 2, LF_LOG_WARNING = 3, LF_LOG_ERROR = 4 };

typedef struct lf_host lf_host;
struct lf_host {
  lf_hdr h;
  void *context; /* the host's own */
  /* An extension's table, valid as long as the host, or null where it is not offered. Pure. [any] */
  const void *(*get_extension)(const lf_host *host, lf_str extension_id);
  /* One line of text; never blocks on the terminal. [any] */
  void (*log)(const lf_host *host, int32_t level, lf_str text);
  /* The value of a job option by its dotted name ("model.freeze") as JSON, or LF_E_INVALID where there is none. [any]
   */
  int32_t (*option)(const lf_host *host, lf_str dotted_name, lf_sink json, lf_err *err);
  /* 1 once the job was asked to stop: long work should return LF_E_ABORTED soon. [any] */
  int32_t (*cancelled)(const lf_host *host);
};

#ifdef __cplusplus
}
#endif
#endif
