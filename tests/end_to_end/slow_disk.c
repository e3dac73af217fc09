// A disk that takes its time, for LD_PRELOAD: SLOW_FSYNC and SLOW_OPEN are seconds, SLOW_NAME what a path that is
// opened must hold. Once each in a process.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void sleep_once(atomic_flag* slept, const char* variable) {
  const char* seconds = getenv(variable);
  if (seconds != NULL && !atomic_flag_test_and_set(slept)) sleep((unsigned)atoi(seconds));
}

int fsync(int fd) {
  static atomic_flag slept = ATOMIC_FLAG_INIT;
  sleep_once(&slept, "SLOW_FSYNC");
  int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
  return real(fd);
}

static int open_slowly(const char* function, const char* path, int flags, mode_t mode) {
  static atomic_flag slept = ATOMIC_FLAG_INIT;
  const char* name = getenv("SLOW_NAME");
  if (name != NULL && strstr(path, name) != NULL && (flags & O_ACCMODE) == O_RDONLY) sleep_once(&slept, "SLOW_OPEN");
  int (*real)(const char*, int, ...) = (int (*)(const char*, int, ...))dlsym(RTLD_NEXT, function);
  return real(path, flags, mode);
}

#define OPEN(name)                                                                         \
  int name(const char* path, int flags, ...) {                                             \
    va_list rest;                                                                          \
    va_start(rest, flags);                                                                 \
    const mode_t mode = (flags & (O_CREAT | __O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0; \
    va_end(rest);                                                                          \
    return open_slowly(#name, path, flags, mode);                                          \
  }
OPEN(open)
OPEN(open64)
