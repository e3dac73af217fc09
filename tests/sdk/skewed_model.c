/* The model template as built against another version of the headers: with members that this one does not have yet
 * (LF_SKEW_NEWER), or without those behind `drop`, where there is then no table to read. */
#define lf_plugin_entry template_entry
#include "model.c" /* of plugin_api/template/c */
#undef lf_plugin_entry

typedef struct table_of_the_future {
  lf_model_api known;
  void (*unknown[6])(void);
} table_of_the_future;

static table_of_the_future skewed_;

static void nobody_calls_this(void) { abort(); }

static const void* skewed_interface(lf_str id) {
  if (get_interface(id) == NULL) return NULL;
  for (size_t i = 0; i < sizeof skewed_ / sizeof(void*); ++i) ((void (**)(void)) & skewed_)[i] = nobody_calls_this;
#ifdef LF_SKEW_NEWER
  skewed_.known = kTable;
  skewed_.known.h.size = sizeof skewed_;
#else
  memcpy(&skewed_, &kTable, offsetof(lf_model_api, dry_run));
  skewed_.known.h.size = offsetof(lf_model_api, dry_run);
#endif
  return &skewed_;
}

static const lf_plugin kSkewedPlugin = {
    .h = {sizeof(lf_plugin), LF_ABI_MAJOR, LF_ABI_MINOR},
    .magic = LF_PLUGIN_MAGIC,
    .kind = LF_KIND_MODEL,
    .id = {"template_c", 10},
    .version = {"1", 1},
    .get_interface = skewed_interface,
    .start = start,
    .stop = stop,
};

LF_EXPORT const lf_plugin* lf_plugin_entry(uint32_t host_abi_major, uint32_t host_abi_minor) {
  (void)host_abi_major, (void)host_abi_minor;
  return &kSkewedPlugin;
}
