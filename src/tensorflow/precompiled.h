// The headers of TensorFlow that take longest to read, compiled once for all files of the plug-in.
// Every file still includes what it uses. Without #pragma once, which is not for a file that is
// compiled by itself.

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "tensorflow/core/framework/rendezvous.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/logging.h"
