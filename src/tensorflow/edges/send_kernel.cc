// The kernel of `_Send`: TensorFlow's own, which also reads the note that its node carries.
//
// A worker that runs its part of a function sees no graph pass of it: the task that calls the
// function partitions it, and the worker gets the part as a function of its own. It makes the
// part's kernels, once, and that is where the sender learns of its edges.
#include <memory>
#include <string>

#include "edges/edge_marks.h"
#include "edges/edge_note.h"
#include "edges/edges.h"
#include "memory/allocation_sites.h"
#include "memory/arena_allocator.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/kernels/sendrecv_ops.h"

namespace farwrite::plugin {
namespace {

namespace tf = ::tensorflow;

// TensorFlow's own have 0.
constexpr std::int32_t kPriority = 1;

class SendKernel final : public tf::OpKernel {
 public:
  explicit SendKernel(tf::OpKernelConstruction* context)
      : tf::OpKernel(context), own_(new tf::SendOp(context)) {
    // An eager copy makes a kernel each time, which has no note.
    if (!context->status().ok() || !context->HasAttr(kNote)) return;
    // A new graph, or a function that this process has a part of.
    if (ArenaAllocator::traced()) AllocationSites::of_process().trace_new_graph();
    std::string bytes, source, target, tensor;
    OP_REQUIRES_OK(context, context->GetAttr(kNote, &bytes));
    OP_REQUIRES_OK(context, context->GetAttr("send_device", &source));
    OP_REQUIRES_OK(context, context->GetAttr("recv_device", &target));
    OP_REQUIRES_OK(context, context->GetAttr("tensor_name", &tensor));
    const std::optional<EdgeNote> note = decode_note(bytes);
    if (!note) return;
    const std::shared_ptr<Edge> edge = Edges::of_process().declare(source, target, tensor);
    edge->describe(*note);
    small_ = edge->has_bound() && edge->max_bytes() <= ArenaAllocator::kThreshold;
  }

  // The executor gives a thread to each expensive kernel that is ready. To push what rides inside
  // its notification takes less time than waking one.
  bool IsExpensive() override { return !small_ && own_->IsExpensive(); }

  void Compute(tf::OpKernelContext* context) override { own_->Compute(context); }

  std::string TraceString(const tf::OpKernelContext& context, bool verbose) const override {
    return own_->TraceString(context, verbose);
  }

 private:
  const std::unique_ptr<tf::OpKernel> own_;
  bool small_ = false;
};

REGISTER_KERNEL_BUILDER(Name("_Send").Device(tf::DEVICE_CPU).Priority(kPriority), SendKernel);
// Of other devices only GPUs: the rest use TensorFlow's kernel for DEVICE_DEFAULT, which must be
// the only one.
REGISTER_KERNEL_BUILDER(Name("_Send").Device(tf::DEVICE_GPU).Priority(kPriority), SendKernel);
REGISTER_KERNEL_BUILDER(
    Name("_HostSend").Device(tf::DEVICE_GPU).HostMemory("tensor").Priority(kPriority), SendKernel);
REGISTER_KERNEL_BUILDER(
    Name("_HostSend").Device(tf::DEVICE_CPU).HostMemory("tensor").Priority(kPriority), SendKernel);

}  // namespace
}  // namespace farwrite::plugin
