// The search for a convolution's split over tiles: greedy over the part counts of all dimensions, with
// closed-form costs.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "core/target/target_model.h"
#include "kernels/host/integer_division.h"
#include "operations/convolution/convolution_plan.h"
#include "operations/convolution/convolution_split_cost.h"

namespace ipu_model {
namespace {

class SplitSearch {
 public:
  // buffer_bytes: of the steps of a split; the search has no such bound if it is infinite.
  SplitSearch(const ConvolutionProblem& problem, const TargetModel& target, unsigned num_tiles,
              double buffer_bytes = std::numeric_limits<double>::infinity())
      : p_(problem), target_(target), tiles_(num_tiles), costs_(problem, target, num_tiles, buffer_bytes) {}

  ConvolutionSplit Best() {
    // PopLibs' planner (minimizeMemory): up to twice a tile's memory, then without a bound.
    while (!FindWithin() && costs_.setting().budget < 2.0 * target_.bytes_per_tile) {
      found_ = {};
      costs_.Use({2 * costs_.setting().budget, costs_.setting().sum_type, false});
    }
    if (found_[0].cost >= kTooLarge) {
      found_ = {};
      costs_.Use({std::numeric_limits<double>::infinity(), costs_.setting().sum_type, false});
      FindWithin();
    }
    return Finished();
  }

  // The best split within the bytes for buffers, if there is one.
  std::optional<ConvolutionSplit> BestWithin() {
    Search(costs_.setting(), costs_.setting());
    if (found_[0].cost >= kTooLarge) return std::nullopt;
    return Finished();
  }

 private:
  using Parts = SplitParts;
  using Setting = SplitCosts::Setting;

  // What the search found from each starting point is near the best, and moving parts from one dimension to
  // another often comes closer.
  ConvolutionSplit Finished() {
    Found best = found_[0];
    for (const Found& found : found_) {
      if (found.cost == std::numeric_limits<double>::infinity()) continue;
      if (Enumerates() && &found != found_.data()) break;
      const Parts parts = Exchange(found.parts);
      const double cost = costs_.Cost(parts);
      if (cost < best.cost) best = {parts, cost};
    }
    return {Make(best.parts), costs_.StepsOf(best.parts)};
  }

  // Finds plans in the setting, or with steps in the same memory. Returns whether the best one fits.
  bool FindWithin() {
    // Where not all plans are enumerated, also search with less memory, and always with wider sums: the
    // greedy search may then find a better plan.
    const Setting plain = costs_.setting();
    for (const double share : {1.0, 0.125}) {
      if (share < 1 && Enumerates()) break;
      for (const DType searched : {plain.sum_type, DType::kF32}) {
        if (searched != plain.sum_type && plain.sum_type != DType::kF16) continue;
        Search({plain.budget * share, searched, false}, plain);
      }
    }
    costs_.Use(plain);
    Enumerate();
    // Parts that do not fit, or hardly, may be processed in steps.
    if (found_[0].cost >= kTooLarge || costs_.BytesOf(found_[0].parts) > plain.budget / 2) {
      const Setting serial{plain.budget, plain.sum_type, true};
      const double before = found_[0].cost;
      costs_.Use(serial);
      Offer({found_[0].parts, costs_.Cost(found_[0].parts)});
      if (Enumerates()) {
        const Parts parts = Improve({});
        Offer({parts, costs_.Cost(parts)});
        Enumerate();
      } else {
        Search(serial, serial);
      }
      if (found_[0].cost >= before) costs_.Use(plain);
    }
    return found_[0].cost < kTooLarge;
  }

  struct Found {
    Parts parts;
    double cost = std::numeric_limits<double>::infinity();
  };

  // Searches from every starting point, and compares what is found by its cost in another setting.
  void Search(const Setting& searched, const Setting& compared) {
    for (const Parts& start : Starts()) {
      costs_.Use(searched);
      const Parts parts = Improve(start);
      costs_.Use(compared);
      Offer({parts, costs_.Cost(parts)});
    }
  }

  // Considers every split into whole groups of channels that may take fewer cycles than the best plan, as
  // PopLibs' planner does.
  bool Enumerates() const { return p_.groups() == 1 && target_.AmpMacsPerCycle(p_.in_type) > 0; }

  void Enumerate() {
    if (!Enumerates()) return;
    std::array<std::vector<std::int64_t>, kMaxSpaceDims> counts;
    int last = 0;
    for (int d = 0; d < space_.rank; ++d) {
      const std::int64_t group = d == kFeatureDim   ? 8
                                 : d == kChannelDim ? target_.AmpInputGroup(p_.in_type)
                                                    : 1;
      const std::int64_t groups = CeilDivide(space_.size[d], group);
      counts[d] = {1};
      for (std::int64_t n = space_.divisible[d] ? Following(groups, 1) : 0; n > 0; n = Following(groups, n))
        counts[d].push_back(n);
      if (counts[d].size() >= counts[last].size()) last = d;
    }
    Parts parts;
    EnumerateFrom(0, last, tiles_, counts, &parts);
  }

  void EnumerateFrom(int d, int last, std::int64_t tiles,
                     const std::array<std::vector<std::int64_t>, kMaxSpaceDims>& counts, Parts* parts) {
    if (d == last) return EnumerateFrom(d + 1, last, tiles, counts, parts);
    if (d < space_.rank) {
      for (const std::int64_t n : counts[d]) {
        if (n > tiles) break;
        parts->n[d] = n;
        EnumerateFrom(d + 1, last, tiles / n, counts, parts);
      }
      parts->n[d] = 1;
      return;
    }
    // Fewer parts only make the products of a tile more.
    for (std::size_t i = counts[last].size(); i-- > 0;) {
      if (counts[last][i] > tiles) continue;
      parts->n[last] = counts[last][i];
      if (costs_.LeastCycles(*parts) >= found_[0].cost) break;
      Offer({*parts, costs_.Cost(*parts)});
    }
    parts->n[last] = 1;
  }

  // Returns the next count of parts that makes the largest part smaller, or 0.
  static std::int64_t Following(std::int64_t groups, std::int64_t count) {
    const std::int64_t largest = CeilDivide(groups, count);
    return largest == 1 ? 0 : CeilDivide(groups, largest - 1);
  }

  // Keeps the best plans, the best one first.
  void Offer(Found found) {
    for (Found& kept : found_) {
      if (found.cost == kept.cost) return;
      if (found.cost < kept.cost) std::swap(found, kept);
    }
  }

  // The starting points: one part of everything, and one dimension split far, for dimensions that pay only
  // then.
  std::vector<Parts> Starts() const {
    std::vector<Parts> starts(1);
    for (int d = 0; d < space_.rank; ++d) {
      if (!space_.divisible[d] || space_.grains[d] == 1) continue;
      starts.emplace_back();
      starts.back().n[d] = std::min<std::int64_t>(space_.grains[d], tiles_);
    }
    // Squares of the field, which have the smallest halos.
    const auto edge = static_cast<std::int64_t>(std::sqrt(static_cast<double>(tiles_) / 4));
    if (p_.geometry.spatial == 2 && edge > 1) {
      starts.emplace_back();
      for (int d = 3; d < 5; ++d) starts.back().n[d] = std::min(space_.grains[d], edge);
    }
    return starts;
  }

  // Repeatedly raises the part count with the best saving, as long as there is one.
  Parts Improve(Parts parts) const {
    double cost = costs_.Cost(parts);
    std::int64_t used = 1;
    for (int d = 0; d < space_.rank; ++d) used *= parts.n[d];
    for (;;) {
      int best_dim = -1;
      std::int64_t best_count = 0;
      double best_rate = 0;
      for (int d = 0; d < space_.rank; ++d) {
        if (!space_.divisible[d]) continue;
        const std::int64_t others = used / parts.n[d];
        for (std::int64_t count = Next(d, parts.n[d]); count > 0 && count * others <= tiles_;
             count = Next(d, count)) {
          Parts trial = parts;
          trial.n[d] = count;
          // Savings are weighted by the tiles they use, so that cheap splits come first.
          const double growth = static_cast<double>(count) / static_cast<double>(parts.n[d]);
          const double rate = (cost - costs_.Cost(trial)) / (growth - 0.9);
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
      cost = costs_.Cost(parts);
    }
  }

  // Repeatedly takes parts of one dimension back and lets the search spend the tiles elsewhere.
  Parts Exchange(Parts best) const {
    double cost = costs_.Cost(best);
    for (bool better = true; better;) {
      better = false;
      for (int d = 0; d < space_.rank; ++d) {
        for (std::int64_t count = best.n[d] / 2; count > 0; count /= 2) {
          Parts trial = best;
          trial.n[d] = count;
          const Parts found = Improve(trial);
          const double found_cost = costs_.Cost(found);
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
    const std::int64_t largest = CeilDivide(space_.grains[d], count);
    if (largest == 1) return 0;
    const std::int64_t smaller = largest - std::max<std::int64_t>(1, largest / 8);
    return CeilDivide(space_.grains[d], smaller);
  }

  // Features are innermost in tile order, so that neighbours receive the same input and share a bus.
  Grid Make(const Parts& parts) const {
    Grid split;
    split.num_tiles = static_cast<unsigned>(tiles_);
    for (int d = 0; d < space_.rank; ++d) {
      split.shape.push_back(space_.size[d]);
      split.parts.push_back(parts.n[d]);
      split.grain.push_back(space_.grain[d]);
    }
    split.tile_stride.assign(static_cast<std::size_t>(space_.rank), 0);
    std::int64_t stride = 1;
    const auto number = [&](int d) {
      split.tile_stride[static_cast<std::size_t>(d)] = stride;
      stride *= parts.n[d];
    };
    number(1);
    number(2);
    for (int d = space_.rank - 1; d >= 3; --d) number(d);
    number(0);
    return split;
  }

  const ConvolutionProblem& p_;
  const TargetModel& target_;
  const std::int64_t tiles_;
  SplitCosts costs_;
  const SplitSpace& space_ = costs_.space();
  std::array<Found, 4> found_;
};

}  // namespace

ConvolutionSplit ChooseConvolutionSplit(const ConvolutionProblem& problem, const TargetModel& target,
                                        unsigned num_tiles) {
  if (NumElements(problem.out) == 0) return {Grid::Linear(1, 1, 1, num_tiles), {}};
  return SplitSearch(problem, target, num_tiles).Best();
}

std::optional<ConvolutionSplit> ConvolutionSplitWithin(const ConvolutionProblem& problem,
                                                       const TargetModel& target, unsigned num_tiles,
                                                       double bytes) {
  if (NumElements(problem.out) == 0) return std::nullopt;
  return SplitSearch(problem, target, num_tiles, bytes).BestWithin();
}

}  // namespace ipu_model
