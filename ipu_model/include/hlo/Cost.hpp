// Tile clock cycles of the vertices of the library hlo, all workers together, for Graph::setPerfEstimate. The
// model's operations use the same functions, so a kernel and its expansion cost the same.
#ifndef HLO_COST_HPP
#define HLO_COST_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "hlo/Expression.hpp"
#include "poplar/Target.hpp"

namespace hlo {

// A vertex that writes so many elements: the same value everywhere, or indices.
std::uint64_t fillCycles(const poplar::Target& target, DType type, std::size_t elements);
std::uint64_t iotaCycles(const poplar::Target& target, DType type, std::size_t elements);

// A vertex of map that computes `outputs` of the expression.
class MapCost {
 public:
  // scalarInputs: by input of the expression, whether one element is used for all. inPlace: whether a result
  // is stored over an input. repeats: by input, along which dimensions it repeats, from the outermost
  // dimension in memory of the results to the innermost; empty if no input does.
  MapCost(const Expression& expression, const std::vector<unsigned>& outputs,
          const std::vector<bool>& scalarInputs, bool inPlace, const std::vector<std::vector<bool>>& repeats);
  // On elements with these extents, in the order of the dimensions of `repeats`.
  std::uint64_t cycles(const poplar::Target& target, const std::vector<std::size_t>& extents) const;
  // The same on several parts of the results.
  std::uint64_t cyclesOfParts(const poplar::Target& target,
                              const std::vector<std::vector<std::size_t>>& extents) const;

 private:
  struct Data;
  std::shared_ptr<const Data> data_;
};

// Vertices of triangular systems and Cholesky factors.
std::uint64_t copyMatrixCycles(const poplar::Target& target, DType type, std::size_t elements);
// Sums of `inner` products each.
std::uint64_t subtractProductCycles(const poplar::Target& target, DType type, std::size_t elements,
                                    std::size_t inner);
// Systems of `equations`, with `elements` unknowns in all, and so many right-hand sides for each matrix.
// lower: they are solved from the first equation on. left: right-hand sides are columns.
std::uint64_t triangularSolveCycles(const poplar::Target& target, DType type, std::size_t elements,
                                    std::size_t equations, bool lower, std::size_t rightSides,
                                    bool left = true);
// Matrices [n, n] with `elements` in all, each by one worker.
std::uint64_t choleskyCycles(const poplar::Target& target, DType type, std::size_t elements, std::size_t n);
// A block of the triangle that is kept, or of zeros.
std::uint64_t choleskyStoreCycles(const poplar::Target& target, DType type, std::size_t elements, bool kept);

// A vertex that writes so many elements of an update over its own.
std::uint64_t dynamicUpdateCycles(const poplar::Target& target, DType type, std::size_t elements);

}  // namespace hlo

#endif  // HLO_COST_HPP
