// The headers of TensorFlow that take longest to read, compiled once for all files of the folder.
// Every file still includes what it uses. Without #pragma once, which is not for a file that is
// compiled by itself.

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "tensorflow/core/common_runtime/local_device.h"
#include "tensorflow/core/framework/device_factory.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/env.h"
