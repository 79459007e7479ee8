#include "test_device.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tensorflow/core/framework/device_factory.h"
#include "tensorflow/core/framework/tensor.pb.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/public/session_options.h"

namespace fartest {
namespace {

namespace tf = ::tensorflow;

// Below the processor's: an operation is there only if its program says so.
constexpr int kPriority = 50;

class Factory final : public tf::DeviceFactory {
 public:
  absl::Status ListPhysicalDevices(std::vector<std::string>* devices) override {
    for (int number = 0; number < settings().devices; ++number) {
      devices->push_back("/physical_device:FARTEST:" + std::to_string(number));
    }
    return absl::OkStatus();
  }

  absl::Status CreateDevices(const tf::SessionOptions& options, const std::string& name_prefix,
                             std::vector<std::unique_ptr<tf::Device>>* devices) override {
    const auto& counts = options.config.device_count();
    const auto said = counts.find(kDeviceType);
    const int count = said == counts.end() ? settings().devices : said->second;
    for (int number = 0; number < count; ++number) {
      const std::string name = name_prefix + "/device:FARTEST:" + std::to_string(number);
      devices->push_back(std::make_unique<TestDevice>(options, name, new Engine));
    }
    return absl::OkStatus();
  }
};

// As a pluggable device, so that TensorFlow copies between its memory and the host's where a kernel
// has its input or output in the host's.
const bool registered =
    (tf::DeviceFactory::Register(kDeviceType, std::make_unique<Factory>(), kPriority, true), true);

}  // namespace

TestDevice::TestDevice(const tf::SessionOptions& options, const std::string& name, Engine* engine)
    : tf::LocalDevice(options, BuildDeviceAttributes(
                                   name, tf::DeviceType(kDeviceType),
                                   tf::Bytes(static_cast<std::int64_t>(engine->memory.bytes())),
                                   tf::DeviceLocality(), "a device of tests")),
      engine_(*engine),
      copies_(new Copies(engine)) {
  (void)registered;
  info_.default_context = copies_;
  set_tensorflow_accelerator_device_info(&info_);
}

TestDevice::~TestDevice() { copies_->Unref(); }

tf::Allocator* TestDevice::GetAllocator(tf::AllocatorAttributes attributes) {
  return attributes.on_host() ? tf::cpu_allocator() : &engine_.allocator;
}

absl::Status TestDevice::TryGetDeviceContext(tf::DeviceContext** context) {
  copies_->Ref();
  *context = copies_;
  return absl::OkStatus();
}

absl::Status TestDevice::MakeTensorFromProto(const tf::TensorProto& proto,
                                             tf::AllocatorAttributes attributes,
                                             tf::Tensor* tensor) {
  tf::Tensor parsed;
  if (!parsed.FromProto(tf::cpu_allocator(), proto)) {
    return absl::InvalidArgumentError("FARTEST: cannot parse a tensor");
  }
  // Of a variant the parts stay on the host: no kernel of this device looks at them.
  if (attributes.on_host() || parsed.dtype() == tf::DT_VARIANT) {
    *tensor = std::move(parsed);
    return absl::OkStatus();
  }
  tf::Tensor copy(GetAllocator(attributes), parsed.dtype(), parsed.shape());
  if (!copy.IsInitialized()) {
    return absl::ResourceExhaustedError("FARTEST: no memory for a tensor of shape " +
                                        parsed.shape().DebugString());
  }
  const absl::Status status = copies_->CopyCPUTensorToDeviceSync(&parsed, this, &copy);
  if (status.ok()) *tensor = std::move(copy);
  return status;
}

void TestDevice::CopyTensorInSameDevice(const tf::Tensor* input_tensor, tf::Tensor* output_tensor,
                                        const tf::DeviceContext*, tf::StatusCallback done) {
  copies_->CopyTensorInSameDevice(input_tensor, this, output_tensor, std::move(done));
}

absl::Status TestDevice::Sync() {
  engine_.streams->wait(engine_.streams->end_of(Streams::kCompute));
  return absl::OkStatus();
}

void TestDevice::Sync(const DoneCallback& done) {
  Streams::Work nothing;
  nothing.piece = [](std::size_t) {};
  nothing.finished = [done] {
    tf::Env::Default()->SchedClosure([done] { done(absl::OkStatus()); });
  };
  engine_.streams->enqueue(Streams::kCompute, std::move(nothing));
}

}  // namespace fartest
