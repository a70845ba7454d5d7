// How a field of a vertex refers to its elements on the device. On the host every layout is a pointer and a
// size; what a layout does not give on the device (a size, elements of a vector apart) is not offered here
// either. Source: Graphcore's Poplar and PopLibs API reference, enum poplar::VectorLayout.
#ifndef POPLAR_VECTORLAYOUT_HPP
#define POPLAR_VECTORLAYOUT_HPP

#include <cstdint>

namespace poplar {

enum class VectorLayout : std::uint8_t {
  NOT_VECTOR,
  SPAN,
  SHORT_SPAN,
  ONE_PTR,
  SCALED_PTR32,
  SCALED_PTR64,
  SCALED_PTR128,
  COMPACT_PTR
};

enum class VectorListLayout : std::uint8_t {
  NOT_VECTOR,
  DELTANELEMENTS,
  DELTAN,
  ONE_PTR,
  SCALED_PTR32,
  SCALED_PTR64,
  SCALED_PTR128,
  COMPACT_DELTAN,
  COMPACT_PTR
};

// The same as data that estimators of cycles see, whatever the field of the vertex says.
namespace layout {
enum class Vector { NotAVector, Span, ShortSpan, OnePtr, ScaledPtr32, ScaledPtr64, ScaledPtr128 };
enum class VectorList {
  NotAVector,
  DeltaNElements,
  DeltaN,
  OnePtr,
  ScaledPtr32,
  ScaledPtr64,
  ScaledPtr128,
  CompactDeltaN
};
}  // namespace layout

}  // namespace poplar

#endif  // POPLAR_VECTORLAYOUT_HPP
