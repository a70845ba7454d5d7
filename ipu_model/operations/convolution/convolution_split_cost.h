// What a split of a convolution over tiles costs, in closed form.
#ifndef IPU_MODEL_OPERATIONS_CONVOLUTION_CONVOLUTION_SPLIT_COST_H_
#define IPU_MODEL_OPERATIONS_CONVOLUTION_CONVOLUTION_SPLIT_COST_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/target/target_model.h"
#include "kernels/host/integer_division.h"
#include "operations/convolution/convolution_cost.h"
#include "operations/convolution/convolution_plan.h"
#include "operations/convolution/convolution_serial.h"

namespace ipu_model {

inline constexpr int kMaxSpaceDims = 3 + 2 * kMaxSpatial;

// The cost of a byte of a plan that does not fit, far above any cycles.
inline constexpr double kTooLarge = 1e15;

// How many parts each dimension of the iteration space has.
struct SplitParts {
  std::int64_t n[kMaxSpaceDims];
  SplitParts() { std::fill(n, n + kMaxSpaceDims, 1); }
  bool operator==(const SplitParts& other) const { return std::equal(n, n + kMaxSpaceDims, other.n); }
  struct Hash {
    std::size_t operator()(const SplitParts& parts) const {
      std::uint64_t hash = 0;
      for (const std::int64_t n : parts.n)
        hash = (hash ^ static_cast<std::uint64_t>(n)) * 0x9e3779b97f4a7c15u;
      return static_cast<std::size_t>(hash >> 20);
    }
  };
};

// The dimensions of the iteration space, and into what they may be cut.
struct SplitSpace {
  int rank = 0;
  std::int64_t size[kMaxSpaceDims], grain[kMaxSpaceDims], grains[kMaxSpaceDims];
  bool divisible[kMaxSpaceDims];

  SplitSpace(const ConvolutionProblem& problem, const TargetModel& target);
  // The elements of the largest part of a dimension.
  std::int64_t Largest(const SplitParts& parts, int d) const {
    return std::min(size[d], CeilDivide(grains[d], parts.n[d]) * grain[d]);
  }
};

class SplitCosts {
 public:
  // What a cost depends on beside the parts.
  struct Setting {
    double budget;
    DType sum_type;
    bool serial;  // whether parts that exceed the budget are processed in steps
    bool operator==(const Setting& other) const {
      return budget == other.budget && sum_type == other.sum_type && serial == other.serial;
    }
  };

  // buffer_bytes: of the steps of a split; without such a bound if it is infinite.
  SplitCosts(const ConvolutionProblem& problem, const TargetModel& target, std::int64_t num_tiles,
             double buffer_bytes);

  const SplitSpace& space() const { return space_; }
  const Setting& setting() const { return setting_; }
  // Changes the setting. Keeps the costs that are known.
  void Use(const Setting& setting);
  // Tile cycles of the slowest tile over all supersteps; far above any real value if memory does not suffice.
  double Cost(const SplitParts& parts) const;
  // The steps that the cost is for.
  SerialSplit StepsOf(const SplitParts& parts) const { return CostAndSteps(parts).serial; }
  // The temporary memory of the largest part with its cheapest codelet.
  double BytesOf(const SplitParts& parts) const;
  // Returns a lower bound of a plan's cycles: the products of the largest part at the matrix unit's rate, and
  // what its tile receives.
  double LeastCycles(const SplitParts& parts) const;

 private:
  using Costs = std::unordered_map<SplitParts, double, SplitParts::Hash>;
  struct Costed {
    double cycles;
    SerialSplit serial;
  };

  ConvolutionChoice Choice(const ConvolutionWork& work) const;
  ConvolutionPart PartOf(const SplitParts& parts, std::int64_t* extents) const;
  double CostOf(const SplitParts& parts) const;
  // The cost of a part in one step, with the steps that let it have a faster codelet, or with any that fit.
  Costed CostAndSteps(const SplitParts& parts) const;
  double CostOf(const SplitParts& parts, const ConvolutionPart& part, const SerialSplit& serial) const;
  // PopLibs (createPlan, fieldGrainSize): results of half precision have an even number of elements on a
  // tile.
  bool OddPositions(const SplitParts& parts, ConvolutionCodelet codelet) const;
  // The superstep that adds `parts` partial sums of each of `elements` values, and casts the result.
  double SumCycles(std::int64_t parts, std::int64_t elements) const;

  const ConvolutionProblem& p_;
  const TargetModel& target_;
  const std::int64_t tiles_;
  const double buffer_bytes_;
  const SplitSpace space_;
  Setting setting_;
  // The search meets the same parts many times.
  std::vector<std::pair<Setting, std::unique_ptr<Costs>>> costs_;
  Costs* current_ = nullptr;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_CONVOLUTION_CONVOLUTION_SPLIT_COST_H_
