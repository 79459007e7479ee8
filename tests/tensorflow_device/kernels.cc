// What the device computes itself. The rest that tests need (_Send, _Recv, Identity, Switch, Merge,
// variables, shapes...) TensorFlow has for every device, because it touches no element.
//
// A kernel returns when its computation is in the compute stream, and keeps no reference to its
// inputs, as a GPU's.
#include <cstdint>
#include <functional>
#include <utility>

#include "copies.h"
#include "counters.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "test_device.h"

namespace fartest {
namespace {

namespace tf = ::tensorflow;

Engine& engine_of(tf::OpKernelContext* context) {
  return static_cast<const Copies*>(context->op_device_context())->engine();
}

template <typename T>
T* inside(const Engine& engine, const tf::Tensor& tensor) {
  return reinterpret_cast<T*>(engine.memory.inside(tensor.data()));
}

void compute(const Engine& engine, std::function<void()> computation) {
  ++counters().kernels;
  Streams::Work work;
  work.piece = [computation = std::move(computation)](std::size_t) { computation(); };
  work.delay = engine.streams->draw_delay();
  engine.streams->enqueue(Streams::kCompute, std::move(work));
}

template <typename T, typename Operation>
class Elementwise final : public tf::OpKernel {
 public:
  using tf::OpKernel::OpKernel;

  void Compute(tf::OpKernelContext* context) override {
    const tf::Tensor& left = context->input(0);
    const tf::Tensor& right = context->input(1);
    const bool left_is_one = left.NumElements() == 1 && left.dims() <= right.dims();
    const bool right_is_one = right.NumElements() == 1 && right.dims() <= left.dims();
    OP_REQUIRES(context, left_is_one || right_is_one || left.shape() == right.shape(),
                absl::UnimplementedError(
                    "FARTEST: give operands of one shape, or one of them one element"));
    tf::Tensor* result = nullptr;
    const tf::TensorShape& shape = left_is_one ? right.shape() : left.shape();
    OP_REQUIRES_OK(context, context->allocate_output(0, shape, &result));
    const std::int64_t count = result->NumElements();
    if (count == 0) return;
    const Engine& engine = engine_of(context);
    const std::int64_t left_step = left.NumElements() == count ? 1 : 0;
    const std::int64_t right_step = right.NumElements() == count ? 1 : 0;
    compute(engine, [=, a = inside<T>(engine, left), b = inside<T>(engine, right),
                     to = inside<T>(engine, *result)] {
      for (std::int64_t i = 0; i < count; ++i)
        to[i] = Operation()(a[i * left_step], b[i * right_step]);
    });
  }
};

class MatMul final : public tf::OpKernel {
 public:
  explicit MatMul(tf::OpKernelConstruction* context) : tf::OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("transpose_a", &transpose_a_));
    OP_REQUIRES_OK(context, context->GetAttr("transpose_b", &transpose_b_));
  }

  void Compute(tf::OpKernelContext* context) override {
    const tf::Tensor& left = context->input(0);
    const tf::Tensor& right = context->input(1);
    OP_REQUIRES(context, left.dims() == 2 && right.dims() == 2,
                absl::InvalidArgumentError("FARTEST: MatMul takes matrices"));
    const std::int64_t rows = left.dim_size(transpose_a_ ? 1 : 0);
    const std::int64_t inner = left.dim_size(transpose_a_ ? 0 : 1);
    const std::int64_t columns = right.dim_size(transpose_b_ ? 0 : 1);
    OP_REQUIRES(context, right.dim_size(transpose_b_ ? 1 : 0) == inner,
                absl::InvalidArgumentError("FARTEST: the matrices of MatMul do not fit"));
    tf::Tensor* result = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, tf::TensorShape({rows, columns}), &result));
    if (result->NumElements() == 0) return;
    const Engine& engine = engine_of(context);
    const std::int64_t a_row = transpose_a_ ? 1 : inner, a_inner = transpose_a_ ? rows : 1;
    const std::int64_t b_inner = transpose_b_ ? 1 : columns, b_column = transpose_b_ ? inner : 1;
    compute(engine, [=, a = inside<float>(engine, left), b = inside<float>(engine, right),
                     to = inside<float>(engine, *result)] {
      for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t column = 0; column < columns; ++column) {
          float sum = 0.0F;
          for (std::int64_t i = 0; i < inner; ++i) {
            sum += a[row * a_row + i * a_inner] * b[i * b_inner + column * b_column];
          }
          to[row * columns + column] = sum;
        }
      }
    });
  }

 private:
  bool transpose_a_ = false;
  bool transpose_b_ = false;
};

// A part of the first axis, which lies in its input's memory wherever it begins.
class Slice final : public tf::OpKernel {
 public:
  using tf::OpKernel::OpKernel;

  void Compute(tf::OpKernelContext* context) override {
    const tf::Tensor& input = context->input(0);
    const auto begin = context->input(1).flat<std::int32_t>();
    const auto size = context->input(2).flat<std::int32_t>();
    bool first_axis = input.dims() == begin.size() && input.dims() == size.size();
    for (int axis = 1; first_axis && axis < input.dims(); ++axis) {
      first_axis = begin(axis) == 0 && size(axis) == input.dim_size(axis);
    }
    OP_REQUIRES(context,
                first_axis && begin(0) >= 0 && size(0) >= 0 &&
                    begin(0) + static_cast<std::int64_t>(size(0)) <= input.dim_size(0),
                absl::UnimplementedError("FARTEST: Slice takes a part of the first axis"));
    context->set_output(0, input.Slice(begin(0), begin(0) + size(0)));
  }
};

#define FARTEST_ELEMENTWISE(operation, functor, type)                                    \
  REGISTER_KERNEL_BUILDER(Name(operation).Device(kDeviceType).TypeConstraint<type>("T"), \
                          Elementwise<type, functor>)
#define FARTEST_ARITHMETIC(type)                       \
  FARTEST_ELEMENTWISE("Add", std::plus<type>, type);   \
  FARTEST_ELEMENTWISE("AddV2", std::plus<type>, type); \
  FARTEST_ELEMENTWISE("Sub", std::minus<type>, type);  \
  FARTEST_ELEMENTWISE("Mul", std::multiplies<type>, type)
FARTEST_ARITHMETIC(float);
FARTEST_ARITHMETIC(double);
FARTEST_ARITHMETIC(std::int64_t);
REGISTER_KERNEL_BUILDER(Name("Slice")
                            .Device(kDeviceType)
                            .TypeConstraint<float>("T")
                            .TypeConstraint<std::int32_t>("Index")
                            .HostMemory("begin")
                            .HostMemory("size"),
                        Slice);
REGISTER_KERNEL_BUILDER(Name("MatMul").Device(kDeviceType).TypeConstraint<float>("T"), MatMul);

}  // namespace
}  // namespace fartest
