// Options: what farwrite._farwrite.DeviceOptions is.
#pragma once

#include <memory>

#include "farwrite/c_options.h"
#include "farwrite/status.h"

namespace farwrite::python {

// The options of a device, set by their keywords. Copies share them: a call that Ctrl-C has
// abandoned keeps what it uses.
class Options {
 public:
  Options() : handle_(fw_options_make(), fw_options_release) {}

  fw_options* handle() const { return handle_.get(); }
  // As the C ABI opens a device with them, valid as long as a copy of this object; or the error
  // with which no device opens.
  Result<const fw_device_options*> fields() const;

 private:
  std::shared_ptr<fw_options> handle_;
};

}  // namespace farwrite::python
