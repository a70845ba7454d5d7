// The inner loop of every direct convolution: one strip of output rows, compiled per instruction set.
#ifndef IPU_MODEL_KERNELS_CONVOLUTION_CONVOLUTION_STRIP_H_
#define IPU_MODEL_KERNELS_CONVOLUTION_CONVOLUTION_STRIP_H_

#include <cstdint>

namespace ipu_model {

// The start of a segment of products, as offsets in elements from the strip's a and b.
struct ReductionSegment {
  std::int64_t a, b;
};

// c[r, j] (+)= sum over segments s and i < length of a[r, s.a + i * a_step] * b[s.b + i * b_step + j] for
// r < rows and j < columns. Row r of `a` starts at r * a_row. Either a_row or a_step is 1. A channelwise
// strip (depthwise convolution) multiplies by a[r, s.a + i * a_step + j] instead.
template <typename T>
struct ConvolutionStrip {
  const T* a;
  std::int64_t a_row, a_step;
  const T* b;
  std::int64_t b_step;
  const ReductionSegment* segments;
  std::int64_t num_segments, length;
  T* c;
  std::int64_t c_row;
  std::int64_t rows;
  int columns;      // in a matrix strip at most StripKernels::columns
  bool accumulate;  // add to c
  bool b_padded;    // rows of b may be read up to the next multiple of `lanes`
  bool rounded;     // every product of floats is rounded before it is added, without FMAs
};

template <typename T>
struct StripKernels {
  int rows;     // of the register tile
  int columns;  // of the register tile
  int lanes;
  void (*matrix)(const ConvolutionStrip<T>&);
  void (*channelwise)(const ConvolutionStrip<T>&);
};

// T: float, double, std::uint32_t or std::uint64_t. HalfToFloat and FloatToHalf convert consecutive f16
// elements; they are here because baseline x86-64 has no f16 instructions.
namespace avx2 {
template <typename T>
StripKernels<T> GetStripKernels();
void HalfToFloat(const std::uint16_t* from, float* to, std::int64_t n);
void FloatToHalf(const float* from, std::uint16_t* to, std::int64_t n);
}  // namespace avx2
namespace avx512 {
template <typename T>
StripKernels<T> GetStripKernels();
void HalfToFloat(const std::uint16_t* from, float* to, std::int64_t n);
void FloatToHalf(const float* from, std::uint16_t* to, std::int64_t n);
}  // namespace avx512

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_CONVOLUTION_CONVOLUTION_STRIP_H_
