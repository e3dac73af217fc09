/* One object whose type reaches every type of the ABI: tables travel as void*, so a look at a plugin's own symbols
 * shows none of them to abidw and abidiff. */
#include "lf/plugin_api/balancer.h"
#include "lf/plugin_api/collective.h"
#include "lf/plugin_api/device.h"
#include "lf/plugin_api/entry.h"
#include "lf/plugin_api/media.h"
#include "lf/plugin_api/model.h"
#include "lf/plugin_api/model_files.h"
#include "lf/plugin_api/parallel.h"
#include "lf/plugin_api/slice.h"

typedef struct lf_all_types {
  lf_hdr *hdr;
  lf_str *str;
  lf_sink *sink;
  lf_err *err;
  lf_plugin *plugin;
  lf_host *host;
  lf_media_host *media;
  lf_media_info *media_info;
  lf_parallel_host *parallel;
  lf_collective *collective;
  lf_tensor *tensor;
  lf_named_tensor *named_tensor;
  lf_device_api *device;
  lf_device_info *device_info;
  lf_memory_stats *memory_stats;
  lf_collective_api *collectives;
  lf_communicator_config *communicator_config;
  lf_model_api *model;
  lf_component *component;
  lf_port *port;
  lf_edge *edge;
  lf_part *part;
  lf_param *param;
  lf_sample *sample;
  lf_cost *cost;
  lf_stage_config *stage_config;
  lf_batch *batch;
  lf_step_out *step_out;
  lf_balancer_api *balancer;
  lf_balance_part *balance_part;
  lf_balance_input *balance_input;
  lf_assignment *assignment;
  lf_balance_report *balance_report;
  lf_range *range;
  lf_place *place;
  lf_model_files_api *model_files;
} lf_all_types;

LF_EXPORT lf_all_types lf_all_types_of_the_abi;
