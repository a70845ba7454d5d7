// The non-linearities of popnn. Source: PopLibs, include/popnn/NonLinearityDef.hpp.
#ifndef POPNN_NONLINEARITYDEF_HPP
#define POPNN_NONLINEARITYDEF_HPP

namespace popnn {

enum class NonLinearityType {
  SIGMOID,         // 1 / (1 + exp(-x))
  HARD_SIGMOID,    // max(0, min(1, 0.2 x + 0.5))
  RELU,            // max(0, x)
  TANH,            // tanh(x)
  GELU,            // x (1 + tanh(0.7978845608 x (1 + 0.044715 x^2))) / 2
  GELU_ERF,        // x (1 + erf(x / sqrt(2))) / 2
  SWISH,           // x / (1 + exp(-x))
  SOFTMAX,         // exp(x) / sum(exp(x)), over the innermost dimension
  SOFTMAX_STABLE,  // the same, from x - max(x)
  SOFTMAX_SCALED   // SOFTMAX_STABLE times SOFTMAX_SCALING
};

// Of SOFTMAX_SCALED.
inline constexpr float SOFTMAX_SCALING = 16384.0f;

}  // namespace popnn

#endif  // POPNN_NONLINEARITYDEF_HPP
