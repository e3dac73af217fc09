// The C library's heap, as a trainer needs it.
#pragma once

namespace lf {

// Of the whole process (mallopt), so only a program's entry calls it: once, before it starts threads and before it
// opens LibTorch.
//
// Freed memory is kept for the next request instead of given back to the kernel: a step frees its activations together
// and the next one asks for as much again; pages that were given back are made and cleared anew each time. What was
// asked for at the peak stays.
//
// The heap begins in huge pages, where the kernel allows it: opening LibTorch and reading a tokenizer touch 60 MB in
// small blocks, otherwise 20 thousand page faults of 4 KB each.
void set_up_heap();

}  // namespace lf
