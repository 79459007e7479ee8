// Kernels for the ops that write into their first input whatever its reference count.
//
// TensorFlow's own would write into a peer's memory, which is mapped read-only, and die. These do
// the same after a copy, if nothing may write into the input: see received_buffer.h. They win by
// their priority, so eager operations and function bodies get them as well as graphs.
#include <cstdint>
#include <cstring>
#include <string>

#include "memory/arena_allocator.h"
#include "memory/received_buffer.h"
#include "stats/stats.h"
#include "tensor/staged_copies.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/register_types.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace farwrite::plugin {
namespace {

namespace tf = ::tensorflow;

// TensorFlow's own have 0.
constexpr std::int32_t kKernelPriority = 1;

enum class InPlaceOp { kUpdate, kAdd, kSub };

template <typename Element, InPlaceOp kChange>
void change(Element* target, const Element* source, std::int64_t elements) {
  for (std::int64_t i = 0; i < elements; ++i) {
    if constexpr (kChange == InPlaceOp::kUpdate) {
      target[i] = source[i];
    } else if constexpr (kChange == InPlaceOp::kAdd) {
      target[i] = target[i] + source[i];
    } else {
      target[i] = target[i] - source[i];
    }
  }
}

// x[i, ...] = or += or -= v, for every row that i names. Shapes: x [n, ...], i [k], v [k, ...].
template <typename Element, InPlaceOp kChange>
class InPlaceKernel final : public tf::OpKernel {
 public:
  using tf::OpKernel::OpKernel;

  void Compute(tf::OpKernelContext* context) override {
    tf::Tensor x = context->input(0);
    const tf::Tensor& rows = context->input(1);
    const tf::Tensor& v = context->input(2);
    OP_REQUIRES(context, tf::TensorShapeUtils::IsVector(rows.shape()),
                absl::InvalidArgumentError("i must be a vector. " + rows.shape().DebugString()));
    OP_REQUIRES(
        context, x.dims() == v.dims() && x.dims() > 0,
        absl::InvalidArgumentError("x and v must have the same rank, 1 or more: " +
                                   x.shape().DebugString() + " vs. " + v.shape().DebugString()));
    for (int axis = 1; axis < x.dims(); ++axis) {
      OP_REQUIRES(
          context, x.dim_size(axis) == v.dim_size(axis),
          absl::InvalidArgumentError("x and v differ in dimension " + std::to_string(axis) + ": " +
                                     x.shape().DebugString() + " vs. " + v.shape().DebugString()));
    }
    OP_REQUIRES(context, rows.dim_size(0) == v.dim_size(0),
                absl::InvalidArgumentError("i and v must have the same first dimension"));
    if (x.NumElements() > 0 && v.NumElements() > 0) {
      if (ReceivedBuffer::read_only(x) != nullptr) {
        tf::Tensor own;
        OP_REQUIRES_OK(context, context->allocate_temp(x.dtype(), x.shape(), &own));
        std::memcpy(own.data(), x.data(), x.TotalBytes());
        count(stats().in_place_copies);
        count(stats().copies);
        count(stats().bytes_copied, x.TotalBytes());
        x = own;
      } else if (ArenaAllocator::traced()) {
        StagedCopies::of_process().will_change(x);
      }
      write(rows, v, &x);
    }
    context->set_output(0, x);
  }

 private:
  static void write(const tf::Tensor& rows, const tf::Tensor& v, tf::Tensor* x) {
    const std::int64_t count = x->dim_size(0);
    const std::int64_t width = x->NumElements() / count;
    auto* const target = static_cast<Element*>(x->data());
    const auto* const source = static_cast<const Element*>(v.data());
    const auto index = rows.vec<std::int32_t>();
    for (std::int64_t k = 0; k < rows.dim_size(0); ++k) {
      const std::int64_t row = ((index(k) % count) + count) % count;
      change<Element, kChange>(target + row * width, source + k * width, width);
    }
  }
};

#define FARWRITE_IN_PLACE(name, kind, type)                                                  \
  REGISTER_KERNEL_BUILDER(                                                                   \
      Name(name).Device(tf::DEVICE_CPU).TypeConstraint<type>("T").Priority(kKernelPriority), \
      InPlaceKernel<type, kind>)
#define FARWRITE_ALL_IN_PLACE(type)                             \
  FARWRITE_IN_PLACE("InplaceUpdate", InPlaceOp::kUpdate, type); \
  FARWRITE_IN_PLACE("InplaceAdd", InPlaceOp::kAdd, type);       \
  FARWRITE_IN_PLACE("InplaceSub", InPlaceOp::kSub, type)

using ::Eigen::half;
using ::tensorflow::bfloat16;
using ::tensorflow::complex128;
using ::tensorflow::complex64;
TF_CALL_NUMBER_TYPES(FARWRITE_ALL_IN_PLACE);
FARWRITE_IN_PLACE("InplaceUpdate", InPlaceOp::kUpdate, bool);

}  // namespace
}  // namespace farwrite::plugin
