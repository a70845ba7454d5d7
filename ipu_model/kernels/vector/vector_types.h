// Vectors of one register. Only for files that are compiled once per instruction set (*_isa.cc).
#ifndef IPU_MODEL_KERNELS_VECTOR_VECTOR_TYPES_H_
#define IPU_MODEL_KERNELS_VECTOR_VECTOR_TYPES_H_

#ifndef ISA_NAMESPACE
#error "vector_types.h is for files compiled once per instruction set (ISA_NAMESPACE)"
#endif

namespace ipu_model::ISA_NAMESPACE {

#ifdef __AVX512F__
constexpr int kVectorBytes = 64;
#else
constexpr int kVectorBytes = 32;
#endif

template <typename T>
constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(T));

template <typename T>
struct VectorTypes {
  typedef T Register __attribute__((vector_size(kVectorBytes)));
  // For loads and stores at any alignment.
  typedef T Memory __attribute__((vector_size(kVectorBytes), aligned(sizeof(T)), may_alias));
};

}  // namespace ipu_model::ISA_NAMESPACE

#endif  // IPU_MODEL_KERNELS_VECTOR_VECTOR_TYPES_H_
