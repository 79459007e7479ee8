// What a test may ask of the CUDA double besides the driver's functions. All are C symbols of
// libcuda_double.so, and all are thread-safe.
//
// The double behaves as the driver does, with two differences. Device memory is never readable by
// the CPU: its addresses are mapped without access, so that the first touch is a SIGSEGV. And
// copies stay asynchronous where the driver may block (pageable host memory), move in pieces, and
// let streams overtake each other, so that only what is synchronized can be relied on.
//
// The environment is read at the first call and at cudaDoubleReset(). What cannot be read makes
// cuInit() answer 999 and print the reason:
//   CUDA_DOUBLE_GPUS        number of GPUs (1); with 0, cuInit() answers NO_DEVICE
//   CUDA_DOUBLE_BYTES       memory of each GPU (1 GiB), counted in the process that allocates
//   CUDA_DOUBLE_VERSION     answer of cuDriverGetVersion() (13000)
//   CUDA_DOUBLE_DMA_BUF     1: cuMemGetHandleForAddressRange() gives a descriptor (0)
//   CUDA_DOUBLE_ATTRIBUTES  "102=0,103=0": attributes of every GPU that differ from the usual
//   CUDA_DOUBLE_DELAY_US    least time in us that each copy, fill and event waits for its turn (0)
//   CUDA_DOUBLE_FAIL        "cuMemCreate=2@3,cuEventSynchronize=700": see cudaDoubleFail()
#pragma once

#include <cstddef>

#include "driver_api.h"

namespace farwrite::cuda_double {

extern "C" {

// What exists now. An allocation is physical memory that has a handle or a mapping here;
// cuMemAlloc() counts as an allocation, a reservation and a mapping. A context counts once for each
// retain. The last release of a context leaves what was made in it, so that a leak is seen.
struct CudaDoubleLive {
  unsigned long long allocations;
  unsigned long long reservations;
  unsigned long long mappings;
  unsigned long long registrations;
  unsigned long long streams;
  unsigned long long events;
  unsigned long long contexts;
};
CUDA_DOUBLE_API CudaDoubleLive cudaDoubleLive();

// How often a function of the driver was called since the last reset, failures included.
CUDA_DOUBLE_API unsigned long long cudaDoubleCalls(const char* function);

// Reads or fills device memory at once, past all streams, access rights and contexts.
CUDA_DOUBLE_API CUresult cudaDoublePeek(CUdeviceptr from, void* to, std::size_t size);
CUDA_DOUBLE_API CUresult cudaDoublePoke(CUdeviceptr to, const void* from, std::size_t size);

// Replaces the faults. "F=C": the next call of F answers C and does nothing. "F=C@3": the third
// call from now. "F=C@3+": the third and all that follow. 700 and 719 stick to the current context,
// as they do with the driver. False, with the reason on stderr, if this cannot be read.
CUDA_DOUBLE_API bool cudaDoubleFail(const char* faults);

// When it returns, no byte moves and no event happens until cudaDoubleResume().
CUDA_DOUBLE_API void cudaDoublePause();
CUDA_DOUBLE_API void cudaDoubleResume();
// While paused: moves up to `pieces` pieces of copies and fills, and the events before them.
// Returns how many moved; fewer if nothing is left.
CUDA_DOUBLE_API unsigned cudaDoubleStep(unsigned pieces);

// As in a new process: no cuInit(), no faults, no counts, no errors that stick, the environment as
// it is now. Returns how many objects are live; unless that is 0, nothing is changed.
CUDA_DOUBLE_API unsigned long long cudaDoubleReset();

}  // extern "C"

}  // namespace farwrite::cuda_double
