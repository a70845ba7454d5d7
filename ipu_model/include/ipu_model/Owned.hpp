// What a class of the API owns. Internal to the model.
#ifndef IPU_MODEL_OWNED_HPP
#define IPU_MODEL_OWNED_HPP

#include <utility>

namespace ipu_model {

// Throws poplar::poplar_error: an object of the class `name` is empty, as it was moved from or made so.
[[noreturn]] void FailMovedFrom(const char* name);

// A smart pointer whose owner, of a class with this name, throws where it is used without it.
template <typename Pointer, const char* kName>
class Owned {
 public:
  explicit Owned(Pointer pointer) noexcept : pointer_(std::move(pointer)) {}

  const Pointer& pointer() const {
    if (pointer_ == nullptr) FailMovedFrom(kName);
    return pointer_;
  }
  auto* get() const { return pointer().get(); }
  auto* operator->() const { return pointer().get(); }
  auto& operator*() const { return *pointer(); }

 private:
  Pointer pointer_;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_OWNED_HPP
