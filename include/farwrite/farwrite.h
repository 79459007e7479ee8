/// @file
/// All of the C++ API. A remote process is a device: its registered memory can be written and read.
#pragma once

#include "farwrite/box.h"
#include "farwrite/bytes.h"
#include "farwrite/channel.h"
#include "farwrite/completion.h"
#include "farwrite/copy.h"
#include "farwrite/device.h"
#include "farwrite/endpoint.h"
#include "farwrite/gpu.h"
#include "farwrite/memory_kind.h"
#include "farwrite/options.h"
#include "farwrite/region.h"
#include "farwrite/registration.h"
#include "farwrite/status.h"
#include "farwrite/stream.h"
#include "farwrite/tensor.h"
#include "farwrite/token.h"
