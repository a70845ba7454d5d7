// Our closed forms against PopLibs' estimators, which are written here as their source has them, with one
// work list for each worker (lib/poplin/PerformanceEstimation.hpp). Graphcore accepts 10 % between its
// estimators and its simulator; ours may not differ from theirs. With MODEL_ACCURACY_TABLE set, prints rows
// of docs/model_accuracy.md.
#include "operations/product/amp_cost.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "check.h"
#include "core/target/target_model.h"
#include "testing/vertex_comparison.h"

namespace ipu_model {
namespace {

using Worklists = std::vector<std::vector<unsigned>>;
constexpr unsigned kWorkers = 6;

unsigned CeilOf(unsigned a, unsigned b) { return (a + b - 1) / b; }

// lib/poplin/ConvUtilInternal.cpp, partitionConvPartialByWorker: rows of `width` positions.
Worklists Grid(unsigned rows, unsigned width) {
  Worklists lists;
  const unsigned all = rows * width;
  for (unsigned i = 0; i < kWorkers; ++i) {
    lists.emplace_back();
    unsigned at = i * all / kWorkers;
    const unsigned end = (i + 1) * all / kWorkers;
    while (at < end) {
      const unsigned row_end = std::min((at / width + 1) * width, end);
      lists.back().push_back(row_end - at);
      at = row_end;
    }
  }
  return lists;
}

struct Case {
  DType type;
  bool float_partials;
  unsigned units, height;
  unsigned groups, inputs, outputs, kernel_outer, kernel_inner, rows, width;
  bool wide;
  unsigned passes = 1;  // not for quarter operands
};

bool Quarter(const Case& c) { return SizeOf(c.type) == 1; }
bool Float(const Case& c) { return SizeOf(c.type) == 4; }

double WeightLoad(const Case& c) {
  const unsigned weights = Quarter(c) ? 32 : Float(c) ? 8 : 16;
  unsigned bytes_per_cycle = c.wide ? 16 : 8;
  if (c.height == 4 && bytes_per_cycle > 8) bytes_per_cycle /= 2;
  return c.units * weights * static_cast<unsigned>(SizeOf(c.type)) / bytes_per_cycle;
}

double Inner1x1(const Case& c, bool zeroing) {
  const Worklists lists = Grid(c.rows, c.width);
  double most = 0, least = 1e18;
  for (const auto& list : lists) {
    double cycles = Quarter(c) ? 17 : 0;
    if (!list.empty() && Quarter(c)) {
      const unsigned n = list[0];
      cycles += (n == 1 ? 18 : n == 2 ? 23 : 27 + (n - 3) * 4) - (zeroing ? 5 : 0);
    } else if (!list.empty()) {
      const unsigned n = list[0];
      const double zero = Float(c) && c.units == 16 ? 8 : c.float_partials ? 4 : 2;
      const bool common = (!Float(c) && c.units == 16) || c.float_partials;
      if (Float(c)) {
        cycles = (n == 1 ? 47.0 : n == 2 ? 46.0 : 46.0 + (n - 3) * 8) + (zeroing ? 2 + zero * n : 0);
      } else if (common) {
        if (n == 1) cycles = 31 + (zeroing ? 1 : 2);
        if (n == 2) cycles = 40 + (zeroing ? 1 : 2);
        if (n >= 3) cycles = (zeroing ? 37 : 38) + (n - 3) * 4.0;
      } else {
        cycles = (n == 1 ? 39.0 : n == 2 ? 40.0 : 41.0 + (n - 3) * 4) + (zeroing ? 2 + zero * n : 0);
      }
      cycles -= !Float(c) && (c.float_partials || c.units == 16) ? 7 : 0;
    }
    most = std::max(most, kWorkers * cycles);
    least = std::min(least, kWorkers * cycles);
  }
  return std::max(most, least + 14);
}

double Vertex1x1(const Case& c) {
  const double load = WeightLoad(c), first = Inner1x1(c, true), later = Inner1x1(c, false);
  if (Quarter(c)) {
    return 46 +
           c.groups * (kWorkers * 2 + 9 +
                       c.outputs * (kWorkers * 6 + 10 + (kWorkers * 14 + 11 + kWorkers * 6) + load + first +
                                    (c.inputs - 1) * ((kWorkers * 11 + 6 + kWorkers * 6) + load + later)));
  }
  const bool retains = !Float(c) && (c.float_partials || c.units == 16);
  const double common = (!Float(c) && c.units == 16) || c.float_partials ? 1 : 0;
  return 50 + kWorkers * ((retains ? 7 : 0) + (retains ? 3 : 0) * (c.inputs * c.groups - 1.0)) +
         c.groups * (12 + common +
                     (c.inputs - 1) * (15 - common + 1 + c.outputs * (19 + c.passes * (6 + load + later))) +
                     (10 + 1 + c.outputs * (19 - common + c.passes * (7 + load + first))));
}

double VertexNx1(const Case& c) {
  double most = 0, least = 1e18;
  for (const auto& list : Grid(c.rows, c.width)) {
    double cycles = Quarter(c) ? 18 : 17 + (c.float_partials ? 0 : 1);
    for (const unsigned n : list) {
      if (Quarter(c)) {
        cycles += 16 + (n == 1 ? 18 : n == 2 ? 23 : 27 + (n - 3) * 4);
        continue;
      }
      const bool stride =
          !Float(c) && ((!c.float_partials && c.units == 16) || (c.float_partials && c.units == 8));
      cycles += 3 - 9;
      if (n == 1) cycles += Float(c) ? 33 : 29;
      if (n == 2) cycles += Float(c) ? 44 : 33 + (stride ? 1 : 0);
      if (n >= 3) cycles += Float(c) ? 45 + (n - 3) * 8 : 34 + (n - 3) * 4;
    }
    most = std::max(most, kWorkers * cycles);
    least = std::min(least, kWorkers * cycles);
  }
  const double outer = c.kernel_outer, inner = c.kernel_inner, load = WeightLoad(c);
  const double loops = std::max(most, least + 9) * c.passes * outer * inner;
  const unsigned zeros = CeilOf(c.rows * c.width * c.units * c.passes, kWorkers);
  const double zeroing = (CeilOf(zeros, c.float_partials ? 2 : 4) + (c.float_partials ? 14 - 9 : 15 - 10)) *
                         double{kWorkers} * c.groups * c.outputs;
  if (Quarter(c)) {
    const double passes = outer * (kWorkers * 5 + 3 +
                                   ((kWorkers * 9 + 13 + kWorkers * 6) + load +
                                    (inner - 1) * (kWorkers * 7 + 8 + kWorkers * 6) + load)) +
                          loops;
    return zeroing + 83 +
           c.groups *
               (kWorkers * 5 + 7 + c.outputs * (kWorkers * 8 + 10 + c.inputs * (kWorkers * 8 + 13 + passes)));
  }
  const double weights = load + (c.height == 4 ? 60 : c.height == 2 ? 46 : 15) + 3;
  const double passes = outer * (14 + inner * (17 - 5 + c.passes * weights)) + loops;
  return zeroing + 109 + kWorkers * 9 + kWorkers * (c.float_partials ? 9 : 10) +
         c.groups * (c.outputs * 17.0 + (c.outputs - 1) * 6.0 + 1) + (c.groups - 1) * 6.0 + 1 +
         c.groups * (16 + c.inputs * (14 + c.outputs * (14 + passes)));
}

double VertexReduce(bool float_partials, bool float_output, unsigned terms, unsigned elements) {
  const unsigned width = float_partials ? 4 : 8, in_path = float_partials ? 2 : 4;
  const unsigned exchanged = (terms - 1) * elements * (float_partials ? 4 : 2), bank = 16 * 1024;
  const bool single = elements % width == 0 && CeilOf(exchanged, bank) * bank < 624u * 1024 / 16;
  if (single) {
    const unsigned loop = width / std::min(width, in_path);
    const unsigned overhead = float_partials ? (float_output ? 8 : 7) : (float_output ? 10 : 9);
    return (20 + (loop * (terms - 1) + overhead) * CeilOf(elements / width, kWorkers)) * kWorkers + 33;
  }
  double cycles = 32;
  const unsigned loop = width / std::min(width, in_path) + 1;
  unsigned loops = elements / width;
  for (unsigned i = 0; (1u << i) < width; ++i) loops += (elements & (1u << i)) != 0 ? 1 : 0;
  unsigned each = loops / kWorkers;
  if (loops % kWorkers != 0) {
    if ((elements & (width - 1)) != 0)
      cycles += 2 * terms + (float_partials ? 13 : 11);
    else
      ++each;
  }
  cycles += (loop * terms + (float_output ? (float_partials ? 7 : 9) : (float_partials ? 6 : 8))) *
            static_cast<double>(each);
  return cycles * kWorkers;
}

constexpr double kTolerance = 0.001;

struct Precision {
  const char* name;
  DType type;
  bool float_partials;
};
const std::vector<Precision> kPrecisions = {{"half,half", DType::kF16, false},
                                            {"half,float", DType::kF16, true},
                                            {"float,float", DType::kF32, true},
                                            {"quarter,half", DType::kF8E4M3FNUZ, false}};

AmpMethod MethodOf(const Case& c) {
  AmpMethod method;
  method.operand = c.type;
  method.float_partials = c.float_partials;
  method.units = c.units;
  method.passes = c.passes;
  method.filter_height = c.height;
  method.wide_weight_loads = c.wide;
  return method;
}

TEST(ConvPartial1x1OutEqualsPopLibs) {
  const TargetModel& target = FindTargetModel("ipu21");
  for (const Precision& precision : kPrecisions) {
    Comparison comparison(std::string("poplin::ConvPartial1x1Out<") + precision.name + ">", kTolerance);
    for (const unsigned units : {8u, 16u}) {
      if (units == 8 && SizeOf(precision.type) == 1) continue;
      for (const unsigned positions : {1u, 2u, 6u, 7u, 13u, 16u, 18u, 100u, 1024u, 4097u}) {
        for (const auto& [groups, inputs, outputs] :
             std::vector<std::array<unsigned, 3>>{{1, 1, 1}, {1, 4, 1}, {1, 1, 3}, {3, 5, 2}}) {
          for (const bool wide : {false, true}) {
            const Case c{precision.type,
                         precision.float_partials,
                         units,
                         1,
                         groups,
                         inputs,
                         outputs,
                         1,
                         1,
                         1,
                         positions,
                         wide,
                         units == 8 && inputs > 1 ? 2u : 1u};
            comparison.Add(Amp1x1Cycles(target, MethodOf(c), {groups, inputs, outputs}, positions),
                           Vertex1x1(c));
          }
        }
      }
    }
  }
}

TEST(ConvPartialNx1EqualsPopLibs) {
  const TargetModel& target = FindTargetModel("ipu21");
  for (const Precision& precision : kPrecisions) {
    Comparison comparison(std::string("poplin::ConvPartialnx1<") + precision.name + ">", kTolerance);
    for (const unsigned units : {8u, 16u}) {
      if (units == 8 && SizeOf(precision.type) == 1) continue;
      for (const unsigned height : {1u, 2u, 4u}) {
        for (const auto& [rows, width] : std::vector<std::array<unsigned, 2>>{
                 {1, 1}, {1, 7}, {4, 4}, {5, 7}, {14, 14}, {3, 56}, {12, 1}, {1, 1000}}) {
          for (const auto& [groups, inputs, outputs, kernel] :
               std::vector<std::array<unsigned, 4>>{{1, 1, 1, 1}, {1, 4, 1, 3}, {2, 1, 3, 7}}) {
            const Case c{precision.type,
                         precision.float_partials,
                         units,
                         height,
                         groups,
                         inputs,
                         outputs,
                         CeilOf(kernel, height),
                         kernel,
                         rows,
                         width,
                         groups == 2,
                         units == 8 && inputs > 1 ? 2u : 1u};
            comparison.Add(AmpNx1Cycles(target, MethodOf(c), {groups, inputs, outputs}, c.kernel_outer,
                                        c.kernel_inner, {rows, width}),
                           VertexNx1(c));
          }
        }
      }
    }
  }
}

TEST(ReduceAddEqualsPopLibs) {
  const TargetModel& target = FindTargetModel("ipu2");
  for (const bool float_partials : {false, true}) {
    for (const bool float_output : {false, true}) {
      Comparison comparison(std::string("poplin::ReduceAdd<") + (float_output ? "float," : "half,") +
                                (float_partials ? "float>" : "half>"),
                            kTolerance);
      for (const unsigned terms : {2u, 3u, 8u, 20u, 100u}) {
        for (const unsigned elements : {1u, 7u, 8u, 30u, 48u, 96u, 100u, 1000u, 4096u})
          comparison.Add(AmpReduceCycles(target, float_partials, float_output, terms, elements),
                         VertexReduce(float_partials, float_output, terms, elements));
      }
    }
  }
}

// The formulas alone, with nothing fitted, reproduce measurements: f16 [n, 16] x [16, 16] on every tile of a
// Bow (tessellate-ipu, "IPU Peak Flops"), less 45 cycles of timer overhead.
TEST(MeasuredInnerLoop) {
  const TargetModel& target = FindTargetModel("bow");
  AmpMethod method;
  method.float_partials = false;
  method.units = 16;
  for (const auto& [positions, cycles] : std::vector<std::pair<std::int64_t, double>>{
           {16, 402}, {64, 584}, {256, 1352}, {512, 2381.3}, {1024, 4424}, {2048, 8525.3}})
    CHECK_NEAR(static_cast<double>(Amp1x1Cycles(target, method, {1, 1, 1}, positions)) / cycles, 1.0, 0.02);
}

double OuterProduct(bool is_float, unsigned width, unsigned channels, unsigned per_group) {
  const double groups = channels / per_group;
  const bool fast = is_float ? per_group >= 6 && per_group % 2 == 0 && per_group / 2 + 1 < 512
                             : per_group >= 12 && per_group % 4 == 0 && per_group / 4 + 1 < 512;
  if (is_float) return 25 + groups * (11 + width * (fast ? 6.0 + (per_group - 6) / 2 : 10.0 + per_group * 2));
  return 25 + groups * (10 + width * (fast ? 6.0 + (per_group - 12) / 4 : 10.0 + per_group * 5 / 2));
}

TEST(OuterProductEqualsPopLibs) {
  const TargetModel& target = FindTargetModel("ipu2");
  for (const bool is_float : {false, true}) {
    Comparison comparison(std::string("poplin::OuterProduct<") + (is_float ? "float>" : "half>"), kTolerance);
    for (const unsigned per_group : {2u, 4u, 16u, 64u})
      for (const unsigned groups : {1u, 3u, 16u})
        for (const unsigned positions : {1u, 6u, 7u, 100u, 1024u})
          comparison.Add(OuterProductCycles(target, is_float, positions, per_group * groups, per_group),
                         6 * OuterProduct(is_float, (positions + 5) / 6, per_group * groups, per_group));
  }
}

}  // namespace
}  // namespace ipu_model
