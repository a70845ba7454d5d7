// Sets flush-to-zero and denormals-are-zero of the calling thread.
#include <immintrin.h>

#include "ipu_model/Model.hpp"
#include "kernels/host/context.h"

namespace ipu_model {
namespace {
constexpr unsigned kFlushToZero = 1u << 15, kDenormalsAreZero = 1u << 6;
}

FlushDenormals::FlushDenormals() : saved_(_mm_getcsr()) {
  _mm_setcsr(saved_ | kFlushToZero | kDenormalsAreZero);
}
FlushDenormals::~FlushDenormals() { _mm_setcsr(saved_); }

KeepDenormals::KeepDenormals() : saved_(_mm_getcsr()) {
  _mm_setcsr(saved_ & ~(kFlushToZero | kDenormalsAreZero));
}
KeepDenormals::~KeepDenormals() { _mm_setcsr(saved_); }

}  // namespace ipu_model
