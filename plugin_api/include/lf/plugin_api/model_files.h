/* Interface "lf.model_files/1", beside "lf.model/1" and optional: what belongs into the directory of a trained model
 * but its weights, and cannot be copied from the directory that it came from. Statistics of the job's own data, for
 * instance, by which whoever opens the model must prepare its inputs. */
#ifndef LF_PLUGIN_API_MODEL_FILES_H
#define LF_PLUGIN_API_MODEL_FILES_H

#include "lf/plugin_api/model.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LF_MODEL_FILES_INTERFACE "lf.model_files/1"

typedef struct lf_model_files_api {
  lf_hdr h;
  /* Each file is u8 [bytes], and its name, without a folder, that in the directory: it replaces one that would be
   * copied there under it. At most 256. Filled up to cap, *n is the true count. Names live as long as the model;
   * tensors are released by the host. Files of the job's data may be read. Asked for when a model is saved, and no
   * stage needs to be there. [main] */
  int32_t (*files)(lf_model model, lf_named_tensor *files, uint32_t cap, uint32_t *n, lf_err *err);
} lf_model_files_api;

#ifdef __cplusplus
}
#endif
#endif
