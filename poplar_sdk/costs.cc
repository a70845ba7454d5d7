// hlo/Cost.hpp over Graphcore's SDK: rough numbers, which only its IPUModel reads. On hardware nothing does.
#include "hlo/Cost.hpp"
#include "ipu_model/Types.hpp"

namespace hlo {
namespace {

std::uint64_t wordCycles(const poplar::Target& target, std::size_t bytes) {
  return bytes / (target.getDataPathWidth() / 8) + target.getNumWorkerContexts();
}

}  // namespace

std::uint64_t fillCycles(const poplar::Target& target, DType type, std::size_t elements) {
  return wordCycles(target, elements * ipu_model::SizeOf(type));
}
std::uint64_t iotaCycles(const poplar::Target& target, DType type, std::size_t elements) {
  return 2 * fillCycles(target, type, elements);
}

struct MapCost::Data {
  std::size_t steps;
};
// One instruction for each operation of the expression, and a load or store for each operand.
MapCost::MapCost(const Expression& expression, const std::vector<unsigned>& outputs,
                 const std::vector<bool>& scalarInputs, bool, const std::vector<std::vector<bool>>&)
    : data_(
          std::make_shared<const Data>(Data{expression.code.size() + outputs.size() + scalarInputs.size()})) {
}
std::uint64_t MapCost::cycles(const poplar::Target& target, const std::vector<std::size_t>& extents) const {
  return cyclesOfParts(target, {extents});
}
std::uint64_t MapCost::cyclesOfParts(const poplar::Target& target,
                                     const std::vector<std::vector<std::size_t>>& extents) const {
  std::size_t elements = 0;
  for (const std::vector<std::size_t>& part : extents) {
    std::size_t n = 1;
    for (const std::size_t extent : part) n *= extent;
    elements += n;
  }
  return data_->steps * elements + target.getNumWorkerContexts();
}

std::uint64_t copyMatrixCycles(const poplar::Target& target, DType type, std::size_t elements) {
  return wordCycles(target, elements * ipu_model::SizeOf(type));
}
std::uint64_t subtractProductCycles(const poplar::Target& target, DType type, std::size_t elements,
                                    std::size_t inner) {
  return wordCycles(target, elements * inner * ipu_model::SizeOf(type));
}
std::uint64_t triangularSolveCycles(const poplar::Target& target, DType type, std::size_t elements,
                                    std::size_t equations, bool /*lower*/, std::size_t /*rightSides*/,
                                    bool /*left*/) {
  return wordCycles(target, elements * equations / 2 * ipu_model::SizeOf(type));
}
std::uint64_t choleskyCycles(const poplar::Target& target, DType type, std::size_t elements, std::size_t n) {
  return wordCycles(target, elements * n / 6 * ipu_model::SizeOf(type));
}
std::uint64_t choleskyStoreCycles(const poplar::Target& target, DType type, std::size_t elements,
                                  bool /*kept*/) {
  return wordCycles(target, elements * ipu_model::SizeOf(type));
}
std::uint64_t dynamicUpdateCycles(const poplar::Target& target, DType type, std::size_t elements) {
  return 2 * wordCycles(target, elements * ipu_model::SizeOf(type));
}

}  // namespace hlo
