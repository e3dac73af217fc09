/* The smallest balancer plugin, in C: every sample stays where it arrived. Copy it, change the id, change plan. */
#include "lf/plugin_api/balancer.h"

#include <stdlib.h>
#include <string.h>

#include "lf/plugin_api/entry.h"

/* Read from the file without running it: `readelf -p .note.lfplugin`. The id must equal the descriptor's. */
LF_PLUGIN_MANIFEST(
    "{\"abi\":\"0.1\",\"kind\":\"balancer\",\"id\":\"template_c\",\"version\":\"1\","
    "\"interfaces\":[\"lf.balancer/1\"],\"torch\":\"none\"}");

static int32_t create(const lf_host *host, lf_str options_json, lf_balancer *out, lf_err *err) {
  (void)host;
  if (options_json.size > 0 && !(options_json.size == 2 && memcmp(options_json.data, "{}", 2) == 0)) {
    err->code = LF_E_INVALID;
    strcpy(err->message, "balance.options: policy template_c takes none; remove the table");
    return LF_E_INVALID;
  }
  *out = NULL; /* this policy keeps nothing */
  return LF_OK;
}

static int32_t destroy(lf_balancer balancer, lf_err *err) {
  (void)balancer, (void)err;
  return LF_OK;
}

/* Pure: the same input gives the same plan on every rank. One assignment per atom, part by part. */
static int32_t plan(lf_balancer balancer, const lf_balance_input *input, lf_assignment *out, lf_balance_report *report,
                    lf_err *err) {
  (void)balancer, (void)report;
  for (uint32_t p = 0; p < input->n_parts; ++p) {
    const lf_balance_part *part = &input->parts[p];
    /* How many atoms each (replica, micro-batch) has so far. */
    int32_t *count = calloc((size_t)part->replicas * (size_t)part->micro_batches, sizeof *count);
    if (count == NULL) {
      err->code = LF_E_NOMEM_HOST;
      strcpy(err->message, "template_c: out of memory");
      return LF_E_NOMEM_HOST;
    }
    for (uint64_t i = 0; i < part->n_atoms; ++i, ++out) {
      out->replica = part->arrival_replica[i];
      out->micro_batch = part->arrival_micro_batch[i];
      out->order = count[out->replica * part->micro_batches + out->micro_batch]++;
      out->reserved = 0;
    }
    free(count);
  }
  return LF_OK;
}

static const lf_balancer_api kTable = {{sizeof(lf_balancer_api), LF_ABI_MAJOR, LF_ABI_MINOR}, create, destroy, plan};

static const void *get_interface(lf_str id) {
  const size_t n = strlen(LF_BALANCER_INTERFACE);
  return id.size == n && memcmp(id.data, LF_BALANCER_INTERFACE, n) == 0 ? &kTable : NULL;
}

static int32_t start(const lf_host *host, lf_err *err) {
  (void)host, (void)err;
  return LF_OK;
}

static int32_t stop(lf_err *err) {
  (void)err;
  return LF_OK;
}

static const lf_plugin kPlugin = {{sizeof(lf_plugin), LF_ABI_MAJOR, LF_ABI_MINOR},
                                  LF_PLUGIN_MAGIC,
                                  LF_KIND_BALANCER,
                                  {"template_c", 10},
                                  {"1", 1},
                                  get_interface,
                                  start,
                                  stop};

const lf_plugin *lf_plugin_entry(uint32_t host_abi_major, uint32_t host_abi_minor) {
  (void)host_abi_major, (void)host_abi_minor;
  return &kPlugin;
}
