/* What a plugin is: one exported symbol, one descriptor, and a manifest that is read without running any of its code.
 */
#ifndef LF_PLUGIN_API_ENTRY_H
#define LF_PLUGIN_API_ENTRY_H

#include "lf/plugin_api/abi.h"
#include "lf/plugin_api/host.h"

#ifdef __cplusplus
#include <cstddef> /* for the C++ library's own macros */
extern "C" {
#endif

#define LF_PLUGIN_MAGIC 0x314C504Cu /* "LPL1" */
#define LF_PLUGIN_ENTRY_NAME "lf_plugin_entry"

enum { LF_KIND_DEVICE = 1, LF_KIND_MODEL = 2, LF_KIND_BALANCER = 3 };

/* The descriptor: constant data, valid as long as the process. */
typedef struct lf_plugin {
  lf_hdr h;
  uint32_t magic; /* LF_PLUGIN_MAGIC */
  int32_t kind;   /* LF_KIND_... */
  lf_str id;      /* what job files call it: [a-z0-9._-]{2,64}; equals the manifest's */
  lf_str version; /* its own, free text */
  /* The table of an interface by its id ("lf.model/1"), or null. Pure. [any] */
  const void *(*get_interface)(lf_str interface_id);
  /* Threads, devices and files only from here on. Called once. `host` lives until stop returns. [main] */
  int32_t (*start)(const lf_host *host, lf_err *err);
  /* All threads joined; no call of the host afterwards. Called once, if start succeeded. [main] */
  int32_t (*stop)(lf_err *err);
} lf_plugin;

/* The one exported symbol. Pure: no allocation, no thread, no device, no environment read. Plugins are never unloaded.
 */
LF_EXPORT const lf_plugin *lf_plugin_entry(uint32_t host_abi_major, uint32_t host_abi_minor);

/* The manifest, an ELF note in section .note.lfplugin with name "lfplug" and type 1; its bytes are JSON:
 *   {"abi":"0.1","kind":"model","id":"qwen_vl","version":"0.1.0","interfaces":["lf.model/1"],"torch":"none"}
 * "torch" is "none", or the exact LibTorch build a plugin was compiled with ("2.11.0+cu130"): then the core's must be
 * the same. Optional: "requires":["lf.media/1"], host extensions without which the plugin cannot work; and
 * "parts":["NAME_*.so"], further shared objects that the plugin opens by itself, as paths from its own folder, whose
 * last component may be a pattern of the shell's. Whatever file fits one is judged and locked as the plugin itself is.
 * Readable with `readelf -p .note.lfplugin FILE`. Usage: LF_PLUGIN_MANIFEST("{...}"); once, at file scope.
 *
 * It adds another note, of type 2 in section .note.lfcompiler: the LF_COMPILER_ABI of the file it stands in. A plugin
 * that is linked with LibTorch shares C++ objects with it, so its C++ library must be the core's. */
#define LF_PLUGIN_MANIFEST(json)                        \
  LF_PLUGIN_NOTE_(manifest, ".note.lfplugin", 1, json); \
  LF_PLUGIN_NOTE_(compiler, ".note.lfcompiler", 2, LF_COMPILER_ABI)

/* What others must know of C++ objects that were compiled here. */
#if !defined(__cplusplus)
#define LF_COMPILER_ABI "c"
#elif defined(_LIBCPP_VERSION)
#define LF_COMPILER_ABI "libc++"
#elif defined(_GLIBCXX_DEBUG)
#define LF_COMPILER_ABI "libstdc++ debug"
#elif defined(_GLIBCXX_USE_CXX11_ABI) && _GLIBCXX_USE_CXX11_ABI
#define LF_COMPILER_ABI "libstdc++ cxx11"
#else
#define LF_COMPILER_ABI "libstdc++ cxx98"
#endif

#define LF_PLUGIN_NOTE_(what, section_name, number, string)                      \
  __attribute__((section(section_name), used, aligned(4))) static const struct { \
    uint32_t name_size, text_size, type;                                         \
    char name[8];                                                                \
    char text[(sizeof(string) + 3u) & ~3u];                                      \
  } lf_plugin_##what##_note_ = {7, (sizeof(string) + 3u) & ~3u, number, "lfplug", string}

#ifdef __cplusplus
}
#endif
#endif
