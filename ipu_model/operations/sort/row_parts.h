// How long rows are cut for sort and top-k, and what that costs.
#ifndef IPU_MODEL_OPERATIONS_SORT_ROW_PARTS_H_
#define IPU_MODEL_OPERATIONS_SORT_ROW_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/mapping/mapping.h"
#include "core/target/target_model.h"
#include "ipu_model/Types.hpp"

namespace ipu_model {

// A number of parts of each row, and the cycles of all rows.
struct RowParts {
  std::int64_t parts = 1;
  double cycles = 0;
};

// What is sorted together: operands, of `bytes` an element of all, and in chunks their positions (u32),
// unless elements that compare as equal are alike.
struct SortedElement {
  std::size_t operands = 1;
  std::int64_t bytes = 0;
  bool positions = true;

  std::size_t OperandsInChunks() const { return operands + (positions ? 1 : 0); }
  std::int64_t BytesInChunks() const { return bytes + (positions ? 4 : 0); }
};

// Elements of the longest chunk that a superstep of a sort may bring a tile.
std::int64_t LongestChunk(const SortedElement& element, std::int64_t bytes_per_tile);

// The chunks of `rows` rows of n elements with the fewest cycles of a sort.
RowParts ChooseSortChunks(const TargetModel& target, std::int64_t n, std::int64_t rows,
                          const SortedElement& element, unsigned num_tiles);

// Numbers of candidates that one vertex of top-k merges, by stage, so that a row of `parts` is left with one.
// A vertex merges about as many as the next one, within the memory for its operands.
std::vector<std::int64_t> MergeStages(std::int64_t parts, std::int64_t k, DType type,
                                      std::int64_t bytes_per_tile);

// The parts, of at least k elements each, of `rows` rows of n elements with the fewest cycles of top-k.
RowParts ChooseTopKParts(const TargetModel& target, std::int64_t n, std::int64_t k, std::int64_t rows,
                         DType type, unsigned num_tiles);

// Whether top-k of a single row in the parts of the grid `held`, on which it lies, takes fewer cycles than in
// the `chosen` parts, to which it is sent.
bool TopKStays(const TargetModel& target, const Grid& held, std::int64_t k, DType type,
               const RowParts& chosen);

// Whether the k first of rows of n elements are found by a sort of the rows with their positions: where that
// takes fewer cycles, or a tile cannot hold the candidates that a vertex merges.
bool TopKSorts(const TargetModel& target, std::int64_t n, std::int64_t k, std::int64_t rows, DType type,
               unsigned num_tiles);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_SORT_ROW_PARTS_H_
