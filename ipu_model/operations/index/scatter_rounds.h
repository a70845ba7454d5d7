// Scatters of rows into a large table, in rounds. The updates stay on their tiles, in order of the rows that
// they change. In each trip of a loop the tiles combine those of one block of each part of the table, and the
// tile of a part adds up what they send to it.
#ifndef IPU_MODEL_OPERATIONS_INDEX_SCATTER_ROUNDS_H_
#define IPU_MODEL_OPERATIONS_INDEX_SCATTER_ROUNDS_H_

#include <memory>
#include <optional>

#include "core/operation/operation.h"
#include "operations/index/gather_rounds.h"
#include "operations/index/scatter_problem.h"

namespace ipu_model {

// The lookups whose rows are those that the scatter changes; `out` are the updates.
GatherProblem RowsOfScatter(const ScatterProblem& p, const View& result, const Mapping* mapping,
                            const View& updates, const Mapping* updates_mapping, DType index_type,
                            std::int64_t buffer_limit);

// Returns the rounds with the fewest cycles whose memory is within its limits; none if updates may not be
// combined in any order, or their windows are not rows. Each share has one group, so a trip is one step.
// Updates are taken to fall evenly.
std::optional<GatherRounds> ChooseScatterRounds(const ScatterProblem& p, const Expression& update,
                                                const GatherProblem& rows, const TargetModel& target,
                                                unsigned num_tiles);

// `in_place`: whether the result is the operand.
TilePlan PlanScatterRounds(const std::shared_ptr<const ScatterProblem>& p, const Expression& update,
                           const GatherProblem& rows, const GatherRounds& rounds, bool in_place,
                           const TargetModel& target);

// What the expansion needs to know beside the plan.
hlo::GatherRounds DescribeScatterRounds(const GatherProblem& rows, const GatherRounds& rounds);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_INDEX_SCATTER_ROUNDS_H_
