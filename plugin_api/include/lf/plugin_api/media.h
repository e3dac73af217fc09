/* Host extension "lf.media/1": pictures and videos, for model plugins that turn a sample into tensors.
 *
 * The host reads files, checks headers against the job's limits before it allocates, and decodes; what is made of the
 * pixels is the family's. Every failure is LF_E_DATA with the file's name in the message. All functions: [any]. */
#ifndef LF_PLUGIN_API_MEDIA_H
#define LF_PLUGIN_API_MEDIA_H

#include "lf/plugin_api/host.h"
#include "lf/plugin_api/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LF_MEDIA_EXTENSION "lf.media/1"

enum { LF_MEDIA_IMAGE = 1, LF_MEDIA_VIDEO = 2 };

/* From the header alone: nothing is decoded. An image has one frame and 0 frames per second. */
typedef struct lf_media_info {
  lf_hdr h;
  int32_t kind;          /* LF_MEDIA_... */
  int32_t width, height; /* pixels, after the orientation that the file asks for */
  int64_t frames;
  double frames_per_second;
  double seconds;
} lf_media_info;

typedef struct lf_media_host {
  lf_hdr h;
  /* `path`: absolute, or relative to the data set's folder. `kind` is what the data set says it is. */
  int32_t (*probe)(const lf_host *host, lf_str path, int32_t kind, lf_media_info *out, lf_err *err);
  /* out: u8 [height, width, 3], RGB, contiguous; to be released. Alpha is blended over white. */
  int32_t (*decode_image)(const lf_host *host, lf_str path, lf_tensor *out, lf_err *err);
  /* The named frames, ascending, repeats allowed. out: u8 [n, height, width, 3]; to be released. */
  int32_t (*decode_video)(const lf_host *host, lf_str path, const int64_t *frames, uint64_t n, lf_tensor *out,
                          lf_err *err);
} lf_media_host;

#ifdef __cplusplus
}
#endif
#endif
