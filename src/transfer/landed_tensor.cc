#include "transfer/landed_tensor.h"

#include "transfer/engine.h"

namespace farwrite::transfer {

LandedTensor& LandedTensor::operator=(LandedTensor&& other) noexcept {
  if (this == &other) return *this;
  give_back();
  engine_ = std::move(other.engine_);
  slot_ = std::move(other.slot_);
  bytes_ = other.bytes_;
  description_ = std::move(other.description_);
  return *this;
}

const std::string& LandedTensor::edge() const { return slot_->edge; }

std::byte* LandedTensor::data() const { return slot_->region.data() + kSlotHeadBytes; }

void LandedTensor::view() { engine_->view(*slot_); }

void LandedTensor::refuse() {
  const std::shared_ptr<Engine> engine = std::move(engine_);
  engine->refuse(std::move(slot_));
}

void LandedTensor::give_back() {
  if (slot_ == nullptr) return;
  const std::shared_ptr<Engine> engine = std::move(engine_);
  engine->give_back(std::move(slot_));
}

}  // namespace farwrite::transfer
