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

// A vertex that writes `bytes`: the same value everywhere, or indices.
std::uint64_t fillCycles(const poplar::Target& target, std::size_t bytes);
std::uint64_t iotaCycles(const poplar::Target& target, std::size_t bytes);

// A vertex of map that computes `outputs` of the expression.
class MapCost {
 public:
  // scalarInputs: by input of the expression, whether one element is used for all. inPlace: whether a result
  // is stored over an input.
  MapCost(const Expression& expression, const std::vector<unsigned>& outputs,
          const std::vector<bool>& scalarInputs, bool inPlace);
  std::uint64_t cycles(const poplar::Target& target, std::size_t elements) const;

 private:
  struct Data;
  std::shared_ptr<const Data> data_;
};

// A vertex with so many multiply-adds for each of its elements, which it loads and stores in vectors.
std::uint64_t multiplyAddCycles(const poplar::Target& target, DType type, std::size_t elements,
                                double products);

// A vertex that writes so many elements of an update over its own.
std::uint64_t dynamicUpdateCycles(const poplar::Target& target, DType type, std::size_t elements);

}  // namespace hlo

#endif  // HLO_COST_HPP
