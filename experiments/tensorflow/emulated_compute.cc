// EmulatedCompute: an op that takes as long as a layer's computation on an accelerator would.
//
// It reads `read` and writes its outputs anew, as a layer does, keeps `held` as long, and is done
// `milliseconds` after it began; if reading and writing take longer, when they are done. It waits
// on a timer and holds no thread meanwhile.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/platform/env.h"

namespace farwrite::experiments {
namespace {

namespace tf = ::tensorflow;
using Clock = std::chrono::steady_clock;

// Runs what is due, on one thread: `due` must be short. Lives as long as the process.
class Timer {
 public:
  static Timer& of_process() {
    static Timer* const timer = new Timer;
    return *timer;
  }

  void at(Clock::time_point time, std::function<void()> due) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto place = waiting_.emplace(time, std::move(due));
    if (place == waiting_.begin()) sooner_.notify_one();
  }

 private:
  Timer() {
    std::thread([this] { serve(); }).detach();
  }

  void serve() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      if (waiting_.empty()) {
        sooner_.wait(lock);
      } else if (waiting_.begin()->first > Clock::now()) {
        sooner_.wait_until(lock, waiting_.begin()->first);
      } else {
        const std::function<void()> due = std::move(waiting_.begin()->second);
        waiting_.erase(waiting_.begin());
        lock.unlock();
        due();
        lock.lock();
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable sooner_;
  std::multimap<Clock::time_point, std::function<void()>> waiting_;
};

// The sum in an order that depends only on `count`, so that it is the same on every transport.
double sum_of(const float* values, std::int64_t count) {
  constexpr int kLanes = 32;
  float lanes[kLanes] = {};
  double total = 0.0;
  constexpr std::int64_t kBlock = 4096;  // elements after which the lanes are emptied
  std::int64_t at = 0;
  while (count - at >= kLanes) {
    const std::int64_t end = at + std::min(kBlock, (count - at) / kLanes * kLanes);
    for (; at < end; at += kLanes) {
      for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += values[at + lane];
    }
    for (float& lane : lanes) total += std::exchange(lane, 0.0F);
  }
  for (; at < count; ++at) total += values[at];
  return total;
}

class EmulatedCompute final : public tf::AsyncOpKernel {
 public:
  explicit EmulatedCompute(tf::OpKernelConstruction* context) : tf::AsyncOpKernel(context) {
    float milliseconds = 0.0F;
    OP_REQUIRES_OK(context, context->GetAttr("milliseconds", &milliseconds));
    OP_REQUIRES_OK(context, context->GetAttr("scale", &scale_));
    OP_REQUIRES_OK(context, context->GetAttr("shapes", &shapes_));
    duration_ = std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double, std::milli>(milliseconds));
  }

  void ComputeAsync(tf::OpKernelContext* context, DoneCallback done) override {
    const Clock::time_point end = Clock::now() + duration_;
    // The mean of all that was read: what is written depends on every byte that arrived.
    double sum = 0.0;
    std::int64_t count = 0;
    tf::OpInputList read;
    OP_REQUIRES_OK_ASYNC(context, context->input_list("read", &read), done);
    for (const tf::Tensor& input : read) {
      sum += sum_of(input.flat<float>().data(), input.NumElements());
      count += input.NumElements();
    }
    const float value = scale_ * static_cast<float>(sum / static_cast<double>(count));
    for (int number = 0; number < context->num_outputs(); ++number) {
      tf::Tensor* output = nullptr;
      OP_REQUIRES_OK_ASYNC(context, context->allocate_output(number, shapes_[number], &output),
                           done);
      std::fill_n(output->flat<float>().data(), output->NumElements(), value);
    }
    if (Clock::now() >= end) return done();
    // `done` runs the executor, which begins the next operations: not on the timer's thread.
    Timer::of_process().at(end,
                           [runner = *context->runner(), done = std::move(done)] { runner(done); });
  }

 private:
  std::vector<tf::TensorShape> shapes_;
  float scale_ = 0.0F;
  Clock::duration duration_{};
};

REGISTER_OP("FarwriteEmulatedCompute")
    .Input("read: N * float")
    .Input("held: H * float")
    .Output("written: M * float")
    .Attr("N: int >= 1")
    .Attr("H: int >= 0")
    .Attr("M: int >= 1")
    .Attr("shapes: list(shape) >= 1")
    .Attr("milliseconds: float")
    .Attr("scale: float = 1.0")
    // So that it is not taken for one whose outputs may be folded or shared.
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* context) {
      std::vector<tf::PartialTensorShape> shapes;
      TF_RETURN_IF_ERROR(context->GetAttr("shapes", &shapes));
      if (static_cast<int>(shapes.size()) != context->num_outputs()) {
        return absl::InvalidArgumentError("FarwriteEmulatedCompute: give one shape an output");
      }
      for (std::size_t number = 0; number < shapes.size(); ++number) {
        tf::shape_inference::ShapeHandle shape;
        TF_RETURN_IF_ERROR(context->MakeShapeFromPartialTensorShape(shapes[number], &shape));
        context->set_output(static_cast<int>(number), shape);
      }
      return absl::OkStatus();
    });
REGISTER_KERNEL_BUILDER(Name("FarwriteEmulatedCompute").Device(tf::DEVICE_CPU), EmulatedCompute);

}  // namespace
}  // namespace farwrite::experiments
