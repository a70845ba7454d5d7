// The search for a convolution's split over tiles: greedy over the part counts of all dimensions, with
// closed-form costs.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/target_model.h"
#include "kernels/host/integer_division.h"
#include "operations/convolution/convolution_cost.h"
#include "operations/convolution/convolution_plan.h"

namespace ipu_model {
namespace {

constexpr int kMaxSpaceDims = 3 + 2 * kMaxSpatial;

class SplitSearch {
 public:
  SplitSearch(const ConvolutionProblem& problem, const TargetModel& target, unsigned num_tiles,
              double memory_proportion)
      : p_(problem),
        target_(target),
        tiles_(num_tiles),
        budget_(memory_proportion * target.bytes_per_tile),
        sum_type_(problem.SumType()) {
    const int spatial = p_.geometry.spatial;
    rank_ = 3 + 2 * spatial;
    Add(0, p_.out[0], 1, p_.geometry.batch_groups == 1);
    Add(1, p_.out[1], p_.groups() > 1 ? 1 : target.VectorWidth(p_.out_type), true);
    Add(2, p_.rhs[1], target.VectorWidth(p_.in_type), p_.geometry.feature_groups == 1);
    for (int d = 0; d < spatial; ++d) {
      Add(3 + d, p_.out[static_cast<std::size_t>(d) + 2], 1, true);
      Add(3 + spatial + d, p_.rhs[static_cast<std::size_t>(d) + 2], 1, true);
    }
  }

  Partition Best() {
    const double budget = budget_;
    const DType sum_type = sum_type_;
    Parts best;
    double best_cost = std::numeric_limits<double>::infinity();
    // Also search with less memory and with wider sums: the greedy search may then find a better plan.
    for (const double share : {1.0, 0.125}) {
      for (const DType searched : {sum_type, DType::kF32}) {
        if (searched != sum_type && sum_type != DType::kF16) continue;
        for (const Parts& start : Starts()) {
          budget_ = budget * share;
          sum_type_ = searched;
          const Parts found = Improve(start);
          budget_ = budget;
          sum_type_ = sum_type;
          const double cost = Cost(found);
          if (cost >= best_cost) continue;
          best = found;
          best_cost = cost;
        }
      }
    }
    best = Exchange(best);
    return Make(best);
  }

 private:
  struct Parts {
    std::int64_t n[kMaxSpaceDims];
    Parts() { std::fill(n, n + kMaxSpaceDims, 1); }
  };

  // The starting points: one part of everything, and one dimension split far, for dimensions that pay only
  // then.
  std::vector<Parts> Starts() const {
    std::vector<Parts> starts(1);
    for (int d = 0; d < rank_; ++d) {
      if (!divisible_[d] || grains_[d] == 1) continue;
      starts.emplace_back();
      starts.back().n[d] = std::min<std::int64_t>(grains_[d], tiles_);
    }
    return starts;
  }

  void Add(int d, std::int64_t size, std::int64_t grain, bool divisible) {
    size_[d] = std::max<std::int64_t>(1, size);
    grain_[d] = grain;
    grains_[d] = CeilDivide(size_[d], grain);
    divisible_[d] = divisible;
  }

  std::int64_t Largest(const Parts& parts, int d) const {
    return std::min(size_[d], CeilDivide(grains_[d], parts.n[d]) * grain_[d]);
  }

  // Tile cycles of the slowest tile over both supersteps; far above any real value if memory does not
  // suffice.
  double Cost(const Parts& parts) const {
    const int spatial = p_.geometry.spatial;
    const std::int64_t features_per_group = p_.features_per_group(), features = Largest(parts, 1);
    std::int64_t extents[kMaxSpaceDims], tiles = 1, contracted = parts.n[2];
    for (int d = 0; d < rank_; ++d) {
      extents[d] = Largest(parts, d);
      tiles *= parts.n[d];
    }
    for (int d = 0; d < spatial; ++d) contracted *= parts.n[3 + spatial + d];
    const ConvolutionWork work =
        WorkOf(p_, extents, std::min(CeilDivide(features, features_per_group), p_.groups()),
               std::min(features, features_per_group), tiles);
    const double input_bytes = static_cast<double>(work.input_elements) * SizeOf(p_.in_type);
    const double weight_bytes =
        static_cast<double>(features * work.channels * work.taps()) * SizeOf(p_.rhs_type);
    const double out_bytes =
        static_cast<double>(features * work.positions()) * SizeOf(contracted > 1 ? sum_type_ : p_.out_type);
    const double bytes = input_bytes + weight_bytes + out_bytes;
    if (bytes > budget_) return 1e15 * bytes;

    // PopLibs: addExchangeCycleEstimates. The tiles that use weights each hold a share of them. The input
    // comes from another operation, so none of it is taken to be in place. Features are innermost in tile
    // order, so neighbours receive the same input, at twice the rate.
    std::int64_t weight_users = parts.n[0];
    for (int d = 0; d < spatial; ++d) weight_users *= parts.n[3 + d];
    const unsigned rate = target_.exchange_bytes_per_cycle;
    const unsigned shared = parts.n[1] % 2 == 0 ? target_.tiles_per_shared_bus : 1;
    double cycles =
        static_cast<double>(ChooseCodelet(target_, p_.in_type, sum_type_ == DType::kF16, work).cycles) +
        input_bytes / (rate * shared) + weight_bytes * (1 - 1.0 / static_cast<double>(weight_users)) / rate +
        target_.sync_cycles;
    if (contracted > 1) {
      const double total = static_cast<double>(NumElements(p_.out));
      const auto each = static_cast<std::int64_t>(
          std::max(1.0 * target_.VectorWidth(p_.out_type), total / static_cast<double>(tiles_) + 1));
      cycles +=
          static_cast<double>(each * contracted) * SizeOf(sum_type_) / target_.exchange_bytes_per_cycle +
          static_cast<double>(ReducePartialsCycles(target_, sum_type_, p_.out_type, contracted, each)) +
          target_.sync_cycles;
    }
    return cycles;
  }

  // Repeatedly raises the part count with the best saving, as long as there is one.
  Parts Improve(Parts parts) const {
    double cost = Cost(parts);
    std::int64_t used = 1;
    for (int d = 0; d < rank_; ++d) used *= parts.n[d];
    for (;;) {
      int best_dim = -1;
      std::int64_t best_count = 0;
      double best_rate = 0;
      for (int d = 0; d < rank_; ++d) {
        if (!divisible_[d]) continue;
        const std::int64_t others = used / parts.n[d];
        for (std::int64_t count = Next(d, parts.n[d]); count > 0 && count * others <= tiles_;
             count = Next(d, count)) {
          Parts trial = parts;
          trial.n[d] = count;
          // Savings are weighted by the tiles they use, so that cheap splits come first.
          const double growth = static_cast<double>(count) / static_cast<double>(parts.n[d]);
          const double rate = (cost - Cost(trial)) / (growth - 0.9);
          if (rate > best_rate) {
            best_rate = rate;
            best_dim = d;
            best_count = count;
          }
        }
      }
      if (best_dim < 0) return parts;
      used = used / parts.n[best_dim] * best_count;
      parts.n[best_dim] = best_count;
      cost = Cost(parts);
    }
  }

  // Repeatedly takes parts of one dimension back and lets the search spend the tiles elsewhere.
  Parts Exchange(Parts best) const {
    double cost = Cost(best);
    for (bool better = true; better;) {
      better = false;
      for (int d = 0; d < rank_; ++d) {
        for (std::int64_t count = best.n[d] / 2; count > 0; count /= 2) {
          Parts trial = best;
          trial.n[d] = count;
          const Parts found = Improve(trial);
          const double found_cost = Cost(found);
          if (found_cost >= cost) continue;
          best = found;
          cost = found_cost;
          better = true;
        }
      }
    }
    return best;
  }

  // Returns the next part count that makes the largest part smaller, or 0. Steps grow with the count.
  std::int64_t Next(int d, std::int64_t count) const {
    const std::int64_t largest = CeilDivide(grains_[d], count);
    if (largest == 1) return 0;
    const std::int64_t smaller = largest - std::max<std::int64_t>(1, largest / 8);
    return CeilDivide(grains_[d], smaller);
  }

  // Features are innermost in tile order, so that neighbours receive the same input and share a bus.
  Partition Make(const Parts& parts) const {
    Partition split;
    split.num_tiles = static_cast<unsigned>(tiles_);
    for (int d = 0; d < rank_; ++d) {
      split.shape.push_back(size_[d]);
      split.parts.push_back(parts.n[d]);
      split.grain.push_back(grain_[d]);
    }
    split.tile_stride.assign(static_cast<std::size_t>(rank_), 0);
    std::int64_t stride = 1;
    const auto number = [&](int d) {
      split.tile_stride[static_cast<std::size_t>(d)] = stride;
      stride *= parts.n[d];
    };
    number(1);
    number(2);
    for (int d = rank_ - 1; d >= 3; --d) number(d);
    number(0);
    return split;
  }

  const ConvolutionProblem& p_;
  const TargetModel& target_;
  const std::int64_t tiles_;
  double budget_;
  DType sum_type_;
  int rank_ = 0;
  std::int64_t size_[kMaxSpaceDims], grain_[kMaxSpaceDims], grains_[kMaxSpaceDims];
  bool divisible_[kMaxSpaceDims];
};

}  // namespace

Partition ChooseConvolutionSplit(const ConvolutionProblem& problem, const TargetModel& target,
                                 unsigned num_tiles, double memory_proportion) {
  if (NumElements(problem.out) == 0) return Partition::Linear(1, 1, 1, num_tiles);
  return SplitSearch(problem, target, num_tiles, memory_proportion).Best();
}

}  // namespace ipu_model
