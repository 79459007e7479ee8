// A server of the parameter box, as the bindings hold it.
#pragma once

#include <atomic>
#include <memory>

#include "farwrite/box.h"
#include "python/held.h"

namespace farwrite::python {

class BoxServer : public Held<box::Server> {
 public:
  using Held::Held;

  // Whether close() was called: a client of this process that still connects then gives up. Shared
  // with that call, which may outlive the server.
  const std::shared_ptr<std::atomic<bool>>& closing() const { return closing_; }

 private:
  const std::shared_ptr<std::atomic<bool>> closing_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace farwrite::python
