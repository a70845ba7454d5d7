// The search for a convolution's split over tiles: greedy over the part counts of all dimensions, with
// closed-form costs.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/deadline.h"
#include "core/target/target_model.h"
#include "kernels/host/integer_division.h"
#include "operations/convolution/convolution_cost.h"
#include "operations/convolution/convolution_plan.h"
#include "operations/convolution/convolution_serial.h"
#include "operations/product/product_cost.h"

namespace ipu_model {
namespace {

constexpr int kMaxSpaceDims = 3 + 2 * kMaxSpatial;

// The cost of a byte of a plan that does not fit, far above any cycles.
constexpr double kTooLarge = 1e15;

class SplitSearch {
 public:
  // buffer_bytes: of the steps of a split; the search has no such bound if it is infinite.
  SplitSearch(const ConvolutionProblem& problem, const TargetModel& target, unsigned num_tiles,
              double buffer_bytes = std::numeric_limits<double>::infinity())
      : p_(problem),
        target_(target),
        tiles_(num_tiles),
        buffer_bytes_(buffer_bytes),
        setting_{problem.most_temporary_bytes, problem.SumType(), false} {
    Use(setting_);
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

  ConvolutionSplit Best() {
    // PopLibs' planner (minimizeMemory): up to twice a tile's memory, then without a bound.
    while (!FindWithin() && setting_.budget < 2.0 * target_.bytes_per_tile) {
      found_ = {};
      Use({2 * setting_.budget, setting_.sum_type, false});
    }
    if (found_[0].cost >= kTooLarge) {
      found_ = {};
      Use({std::numeric_limits<double>::infinity(), setting_.sum_type, false});
      FindWithin();
    }
    return Finished();
  }

  // The best split within the bytes for buffers, if there is one.
  std::optional<ConvolutionSplit> BestWithin() {
    Search(setting_, setting_);
    if (found_[0].cost >= kTooLarge) return std::nullopt;
    return Finished();
  }

 private:
  struct Parts {
    std::int64_t n[kMaxSpaceDims];
    Parts() { std::fill(n, n + kMaxSpaceDims, 1); }
    bool operator==(const Parts& other) const { return std::equal(n, n + kMaxSpaceDims, other.n); }
  };

  // What the search found from each starting point is near the best, and moving parts from one dimension to
  // another often comes closer.
  ConvolutionSplit Finished() {
    Found best = found_[0];
    for (const Found& found : found_) {
      if (found.cost == std::numeric_limits<double>::infinity()) continue;
      if (Enumerates() && &found != found_.data()) break;
      const Parts parts = Exchange(found.parts);
      const double cost = Cost(parts);
      if (cost < best.cost) best = {parts, cost};
    }
    return {Make(best.parts), CostAndSteps(best.parts).serial};
  }

  // Finds plans in the setting, or with steps in the same memory. Returns whether the best one fits.
  bool FindWithin() {
    // Where not all plans are enumerated, also search with less memory, and always with wider sums: the
    // greedy search may then find a better plan.
    const Setting plain = setting_;
    for (const double share : {1.0, 0.125}) {
      if (share < 1 && Enumerates()) break;
      for (const DType searched : {plain.sum_type, DType::kF32}) {
        if (searched != plain.sum_type && plain.sum_type != DType::kF16) continue;
        Search({plain.budget * share, searched, false}, plain);
      }
    }
    Use(plain);
    Enumerate();
    // Parts that do not fit, or hardly, may be processed in steps.
    if (found_[0].cost >= kTooLarge || BytesOf(found_[0].parts) > plain.budget / 2) {
      const Setting serial{plain.budget, plain.sum_type, true};
      const double before = found_[0].cost;
      Use(serial);
      Offer({found_[0].parts, Cost(found_[0].parts)});
      if (Enumerates()) {
        const Parts parts = Improve({});
        Offer({parts, Cost(parts)});
        Enumerate();
      } else {
        Search(serial, serial);
      }
      if (found_[0].cost >= before) Use(plain);
    }
    return found_[0].cost < kTooLarge;
  }

  // The temporary memory of the largest part with its cheapest codelet.
  double BytesOf(const Parts& parts) const {
    std::int64_t extents[kMaxSpaceDims];
    const ConvolutionPart part = PartOf(parts, extents);
    ConvolutionWork work = StepWork(p_, part, {});
    work.most_temporary_bytes = std::numeric_limits<double>::infinity();
    return TemporaryBytesOf(p_, part, {}, Choice(work));
  }

  ConvolutionChoice Choice(const ConvolutionWork& work) const {
    return ChooseCodelet(target_, p_.in_type, setting_.sum_type == DType::kF16, work);
  }

  ConvolutionPart PartOf(const Parts& parts, std::int64_t* extents) const {
    const int spatial = p_.geometry.spatial;
    std::int64_t tiles = 1, contracted = parts.n[2];
    for (int d = 0; d < rank_; ++d) {
      extents[d] = Largest(parts, d);
      tiles *= parts.n[d];
    }
    for (int d = 0; d < spatial; ++d) contracted *= parts.n[3 + spatial + d];
    return {extents, contracted, tiles, parts.n[kFeatureDim], parts.n[kChannelDim]};
  }

  // What a cost depends on beside the parts.
  struct Setting {
    double budget;
    DType sum_type;
    bool serial;  // whether parts that exceed the budget are processed in steps
    bool operator==(const Setting& other) const {
      return budget == other.budget && sum_type == other.sum_type && serial == other.serial;
    }
  };
  struct Hash {
    std::size_t operator()(const Parts& parts) const {
      std::uint64_t hash = 0;
      for (const std::int64_t n : parts.n)
        hash = (hash ^ static_cast<std::uint64_t>(n)) * 0x9e3779b97f4a7c15u;
      return static_cast<std::size_t>(hash >> 20);
    }
  };
  using Costs = std::unordered_map<Parts, double, Hash>;
  struct Found {
    Parts parts;
    double cost = std::numeric_limits<double>::infinity();
  };

  // Changes the setting. Keeps the costs that are known.
  void Use(const Setting& setting) {
    setting_ = setting;
    for (auto& [known, costs] : costs_) {
      if (!(known == setting)) continue;
      current_ = costs.get();
      return;
    }
    costs_.emplace_back(setting, std::make_unique<Costs>());
    current_ = costs_.back().second.get();
  }

  // Searches from every starting point, and compares what is found by its cost in another setting.
  void Search(const Setting& searched, const Setting& compared) {
    for (const Parts& start : Starts()) {
      Use(searched);
      const Parts parts = Improve(start);
      Use(compared);
      Offer({parts, Cost(parts)});
    }
  }

  // Considers every split into whole groups of channels that may take fewer cycles than the best plan, as
  // PopLibs' planner does.
  bool Enumerates() const { return p_.groups() == 1 && target_.AmpMacsPerCycle(p_.in_type) > 0; }

  void Enumerate() {
    if (!Enumerates()) return;
    std::array<std::vector<std::int64_t>, kMaxSpaceDims> counts;
    int last = 0;
    for (int d = 0; d < rank_; ++d) {
      const std::int64_t group = d == kFeatureDim   ? 8
                                 : d == kChannelDim ? target_.AmpInputGroup(p_.in_type)
                                                    : 1;
      const std::int64_t groups = CeilDivide(size_[d], group);
      counts[d] = {1};
      for (std::int64_t n = divisible_[d] ? Following(groups, 1) : 0; n > 0; n = Following(groups, n))
        counts[d].push_back(n);
      if (counts[d].size() >= counts[last].size()) last = d;
    }
    Parts parts;
    EnumerateFrom(0, last, tiles_, counts, &parts);
  }

  void EnumerateFrom(int d, int last, std::int64_t tiles,
                     const std::array<std::vector<std::int64_t>, kMaxSpaceDims>& counts, Parts* parts) {
    if (d == last) return EnumerateFrom(d + 1, last, tiles, counts, parts);
    if (d < rank_) {
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
      if (LeastCycles(*parts) >= found_[0].cost) break;
      Offer({*parts, Cost(*parts)});
    }
    parts->n[last] = 1;
  }

  // Returns a lower bound of a plan's cycles: the products of the largest part at the matrix unit's rate, and
  // what its tile receives.
  double LeastCycles(const Parts& parts) const {
    const int spatial = p_.geometry.spatial;
    const auto part = [&](int d) { return static_cast<double>(Largest(parts, d)); };
    double input = part(kBatchDim) * part(kChannelDim), outputs = part(kBatchDim) * part(kFeatureDim);
    double taps = 1, weight_users = static_cast<double>(parts.n[kBatchDim]);
    for (int d = 0; d < spatial; ++d) {
      const std::int64_t positions = Largest(parts, kPositionDims + d),
                         kernel = Largest(parts, kPositionDims + spatial + d);
      const ConvolutionWindow& w = p_.geometry.window[d];
      const std::int64_t reach =
          ((positions - 1) * w.stride + (kernel - 1) * w.rhs_dilation) / w.lhs_dilation + 1;
      input *= static_cast<double>(std::min(reach, p_.lhs[static_cast<std::size_t>(d) + 2]));
      outputs *= static_cast<double>(positions);
      taps *= static_cast<double>(kernel);
      weight_users *= static_cast<double>(parts.n[kPositionDims + d]);
    }
    const double weights = part(kFeatureDim) * part(kChannelDim) * taps;
    const bool half_rate = SizeOf(p_.in_type) == 2 && setting_.sum_type != DType::kF16;
    const double products = outputs * part(kChannelDim) * taps * (half_rate ? 2 : 1);
    const double shared = parts.n[kFeatureDim] % 2 == 0 ? target_.tiles_per_shared_bus : 1;
    const double received =
        input * SizeOf(p_.in_type) * (1 - 1.0 / static_cast<double>(parts.n[kFeatureDim])) / shared +
        weights * SizeOf(p_.rhs_type) * (1 - 1.0 / weight_users) + outputs * SizeOf(setting_.sum_type);
    return products / std::max(1u, target_.AmpMacsPerCycle(p_.in_type)) +
           received / target_.exchange_bytes_per_cycle;
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
    for (int d = 0; d < rank_; ++d) {
      if (!divisible_[d] || grains_[d] == 1) continue;
      starts.emplace_back();
      starts.back().n[d] = std::min<std::int64_t>(grains_[d], tiles_);
    }
    // Squares of the field, which have the smallest halos.
    const auto edge = static_cast<std::int64_t>(std::sqrt(static_cast<double>(tiles_) / 4));
    if (p_.geometry.spatial == 2 && edge > 1) {
      starts.emplace_back();
      for (int d = 3; d < 5; ++d) starts.back().n[d] = std::min(grains_[d], edge);
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

  // Tile cycles of the slowest tile over all supersteps; far above any real value if memory does not suffice.
  double Cost(const Parts& parts) const {
    const auto [entry, is_new] = current_->try_emplace(parts, 0.0);
    if (is_new) entry->second = CostOf(parts);
    return entry->second;
  }

  double CostOf(const Parts& parts) const {
    CheckDeadline();
    return CostAndSteps(parts).cycles;
  }

  struct Costed {
    double cycles;
    SerialSplit serial;
  };

  // The cost of a part in one step, with the steps that let it have a faster codelet, or with any that fit.
  Costed CostAndSteps(const Parts& parts) const {
    std::int64_t extents[kMaxSpaceDims];
    const ConvolutionPart part = PartOf(parts, extents);
    if (buffer_bytes_ < std::numeric_limits<double>::infinity()) {
      const SerialSplit serial = LimitSerialSplit(p_, part, buffer_bytes_);
      const double bytes = BytesOfStep(p_, part, serial).total();
      return {bytes > buffer_bytes_ ? kTooLarge * bytes : CostOf(parts, part, serial), serial};
    }
    Costed best{CostOf(parts, part, {}), {}};
    if (!setting_.serial) return best;
    for (const bool matrix_unit : {true, false}) {
      if (!matrix_unit && best.cycles < kTooLarge) break;
      for (const SerialSplit& serial : PlannedSerialSplits(target_, p_, part, setting_.budget, matrix_unit)) {
        const Costed steps{CostOf(parts, part, serial), serial};
        if (steps.cycles < best.cycles) best = steps;
      }
    }
    return best;
  }

  double CostOf(const Parts& parts, const ConvolutionPart& part, const SerialSplit& serial) const {
    const int spatial = p_.geometry.spatial;
    const std::int64_t *extents = part.extents, tiles = part.tiles, contracted = part.contracted_parts;
    ConvolutionWork work = StepWork(p_, part, serial);
    work.most_temporary_bytes = setting_.budget;
    const std::int64_t features =
        serial.cuts_outputs() ? std::min(extents[1], serial.outputs.size) : extents[1];
    const double input_bytes = static_cast<double>(work.input_elements) * SizeOf(p_.in_type);
    const double weight_bytes =
        static_cast<double>(features * work.channels * work.taps()) * SizeOf(p_.rhs_type);
    const double outputs = static_cast<double>(features * work.positions());
    const ConvolutionChoice choice = Choice(work);
    const double bytes = TemporaryBytesOf(p_, part, serial, choice);
    if (bytes > setting_.budget || OddPositions(parts, choice.codelet)) return kTooLarge * bytes;
    // PopLibs: addExchangeCycleEstimates. The tiles that use the same weights or input each hold a share of
    // them, and partial sums move even if nothing is added. Features are innermost in tile order, so
    // neighbours receive the same input, at twice the rate.
    std::int64_t weight_users = parts.n[0];
    for (int d = 0; d < spatial; ++d) weight_users *= parts.n[3 + d];
    const unsigned rate = target_.exchange_bytes_per_cycle;
    const unsigned shared = parts.n[1] % 2 == 0 ? target_.tiles_per_shared_bus : 1;
    const std::uint64_t moves =
        choice.copy_cycles > 0 ? choice.copy_cycles - target_.local_copy_call_cycles : 0;
    const double input_cycles = input_bytes * (1 - 1.0 / static_cast<double>(parts.n[1])) / (rate * shared);
    double cycles = static_cast<double>(choice.cycles + moves) + (serial.keeps_input ? 0 : input_cycles) +
                    weight_bytes * (1 - 1.0 / static_cast<double>(weight_users)) / rate + target_.sync_cycles;
    double sums = outputs * SizeOf(setting_.sum_type) / rate;
    if (contracted > 1) {
      const double total =
          static_cast<double>(NumElements(p_.out)) / static_cast<double>(serial.outputs.steps);
      const auto each = static_cast<std::int64_t>(
          std::max(1.0 * target_.VectorWidth(p_.out_type), total / static_cast<double>(tiles_) + 1));
      sums += SumCycles(contracted, each);
    } else if (p_.casts(choice.codelet)) {
      sums += SumCycles(1, static_cast<std::int64_t>(outputs));
    }
    if (!serial.split()) return cycles + sums;
    // PopLibs: totalCycles of addEstimates, which reduces in every step.
    const auto slices = static_cast<double>(StepSliceCycles(target_, p_, tiles, serial, true));
    const std::int64_t held = CeilDivide(static_cast<std::int64_t>(outputs), contracted);
    const double added =
        serial.adds() ? static_cast<double>(StepAddCycles(target_, setting_.sum_type, held)) : 0;
    return static_cast<double>(serial.steps()) * (cycles + slices + sums + added) +
           (serial.keeps_input ? input_cycles + target_.sync_cycles : 0);
  }

  // PopLibs (createPlan, fieldGrainSize): results of half precision have an even number of elements on a
  // tile.
  bool OddPositions(const Parts& parts, ConvolutionCodelet codelet) const {
    const int spatial = p_.geometry.spatial, d = kPositionDims + spatial - 1;
    const bool one_channel =
        codelet == ConvolutionCodelet::kHorizontalMac || codelet == ConvolutionCodelet::kVerticalMac;
    return one_channel && spatial > 0 && SizeOf(p_.out_type) == 2 && size_[d] % 2 == 0 &&
           Largest(parts, d) % 2 != 0;
  }

  // The superstep that adds `parts` partial sums of each of `elements` values, and casts the result.
  double SumCycles(std::int64_t parts, std::int64_t elements) const {
    return static_cast<double>(
               ReducePartialsCycles(target_, setting_.sum_type, p_.out_type, parts, elements)) +
           target_.sync_cycles;
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
  Grid Make(const Parts& parts) const {
    Grid split;
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
  const double buffer_bytes_;
  Setting setting_;
  // The search meets the same parts many times.
  std::vector<std::pair<Setting, std::unique_ptr<Costs>>> costs_;
  Costs* current_ = nullptr;
  std::array<Found, 4> found_;
  int rank_ = 0;
  std::int64_t size_[kMaxSpaceDims], grain_[kMaxSpaceDims], grains_[kMaxSpaceDims];
  bool divisible_[kMaxSpaceDims];
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
