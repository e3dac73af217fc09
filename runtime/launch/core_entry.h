/* The one C symbol of liblfcore.so, and what the launcher asks of it.
 *
 * The launcher links neither LibTorch nor a vendor's libraries; the core holds all of that and is opened RTLD_LOCAL, so
 * that a device plugin's libraries and LibTorch's never meet in one symbol scope. On one host the core is opened once
 * and the workers are forked from that process: neither opening it nor a static constructor of it may start a thread or
 * run an operator. */
#ifndef LF_LAUNCH_CORE_ENTRY_H
#define LF_LAUNCH_CORE_ENTRY_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LF_CORE_ENTRY_NAME "lf_core_run"
#define LF_CORE_VERSION 3 /* launcher and core are built together; another number is refused */

enum {
  LF_CORE_FRESH = 1,          /* start over: rank 0 chooses fresh_output() and tells the others. Only set where this
                                 process was started as one worker; otherwise the launcher has chosen job.output. */
  LF_CORE_TERMINAL = 2,       /* stderr is a terminal, and this is the rank that may draw on it */
  LF_CORE_SERVE_STORE = 4,    /* this rank serves the TCP store named by `store`; the others connect */
  LF_CORE_PLUGINS_PROBED = 8, /* the launcher has probed the plugins of this job: load them without a child process */
  LF_CORE_RUN_LOCKED = 16,    /* the launcher holds the run directory's lock (launch/run_lock.h), for all workers */
  LF_CORE_PLUGINS_LOCKED = 32 /* --locked: every plugin must be in its folder's plugins.lock */
};

/* Everything is borrowed until lf_core_run returns. Strings are UTF-8 with a NUL; never null unless said. */
typedef struct lf_core_request {
  uint32_t version;               /* LF_CORE_VERSION */
  uint32_t flags;                 /* LF_CORE_... */
  const char* command;            /* "train", "check", "parity", "export", "balance" */
  const char* job_file;           /* train and check: absolute path; else null */
  const char* const* sets;        /* "table.key=value", in order, for lf::load_job; LF_DEVICE and -n are among them */
  const char* const* set_origins; /* of each: what messages call it, "--set", "-n", "LF_DEVICE" */
  uint32_t n_sets;
  uint32_t n_plugin_dirs;
  const char* const* plugin_dirs; /* absolute */
  const char* core_file;          /* the library that this is, absolute; plugins' libraries must go with its own */
  const char* library_path;       /* the value of LD_LIBRARY_PATH, or "" */
  const char* const* arguments;   /* of parity, export and balance: the words after the command */
  uint32_t n_arguments;
  int32_t threads; /* for maths, of this worker; at least 1; to be set before the first operator */
  /* For "check", which runs in one process: the world that training from here would have. */
  int32_t rank, world_size, local_rank, local_world_size;
  /* Where ranks meet: "unix:PATH" (launch/store_protocol.h, served by the launcher), "tcp:HOST:PORT" (c10d's TCPStore),
   * or "" in a world of one that nobody serves. */
  const char* store;
  /* Train: why the device of `sets` was taken, for the run record; "" where nobody chose. */
  const char* device_reason;
  uint64_t generation; /* grows with every restart of the same job's workers: prefix of keys in the store */
  /* 0: go on. 1: finish the step, save, return 75. Never goes back. From any thread; cheap. (A second signal ends the
   * process without asking.) */
  int32_t (*stop_requested)(void);
} lf_core_request;

/* The exit code of the process (core/error.h). Catches everything; writes its own errors to stderr. Called at most once
 * in a process, on its first thread; afterwards the process flushes and ends by _exit. */
int lf_core_run(const lf_core_request* request);

#ifdef __cplusplus
}
#endif
#endif
