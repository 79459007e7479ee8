// The C++ interface under test: the classes of the library, or those that a program compiles on the
// C ABI, where FARWRITE_LIBRARY is not defined.
#pragma once

#if defined(FARWRITE_LIBRARY)
#include "box/box.h"
#include "device/device.h"
#include "stream/stream.h"
#include "transfer/tensor.h"
#else
#include "farwrite/farwrite.h"
#endif
