// What the C library does with memory that is freed.
#pragma once

namespace lf {

// Keeps it for the next request instead of giving it back to the kernel. A step frees its activations together and the
// next one asks for as much again; pages that were given back are made and cleared anew each time. Of the whole process
// (mallopt), so only a program's entry calls it, before it starts threads. What was asked for at the peak stays.
void keep_freed_memory();

}  // namespace lf
