#include "core/standard_descriptors.h"

#include <fcntl.h>
#include <unistd.h>

namespace lf {

void fill_standard_descriptors() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) >= 0) continue;
    // The lowest free number, which is `fd`: those below are taken by now. Errors told to nobody fail nothing.
    static_cast<void>(open("/dev/null", fd == STDERR_FILENO ? O_RDWR : O_RDONLY));
  }
}

}  // namespace lf
