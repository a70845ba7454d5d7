// Plans without a planner: results cut into a block for each tile, and vertices that read whole what they
// need beside it. For a device on which nothing has planned the function.
#ifndef HLO_WHOLE_PLAN_H_
#define HLO_WHOLE_PLAN_H_

#include <functional>
#include <string>
#include <vector>

#include "grid.h"
#include "hlo/Plan.hpp"
#include "parts.h"
#include "poplar/Graph.hpp"

namespace hlo {

// Blocks of a result of this shape, about one for each tile, cut along the dimensions that are `free` only.
Grid gridOver(const std::vector<std::size_t>& shape, const std::vector<bool>& free, unsigned tiles);
std::vector<Part> partsOf(const Grid& grid, unsigned tiles);

// What a vertex accesses of a tensor, by its part of the result.
struct WholeAccess {
  PlannedTensor tensor;
  std::function<Region(const Part& part)> region;
};
WholeAccess all(PlannedTensor::Kind kind, unsigned index, const std::vector<std::size_t>& shape);
WholeAccess own(PlannedTensor::Kind kind, unsigned index);

// One vertex for each part. `box`: of the function's iteration space; by default the part.
PlannedGroup groupOf(const std::vector<Part>& parts, const std::vector<WholeAccess>& reads,
                     const std::vector<WholeAccess>& writes,
                     const std::function<Region(const Part& part)>& box = {});

}  // namespace hlo

#endif  // HLO_WHOLE_PLAN_H_
