// Compares bound reductions to the place of the best value with the kernel that chooses at every call.
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "check.h"
#include "kernels/reduce/reduce.h"
#include "testing/bound_kernel_check.h"
#include "testing/test_instructions.h"

namespace ipu_model {
namespace {

struct Case {
  std::vector<std::int64_t> shape, strides;
  std::uint32_t dimensions;
  bool bound;
  std::int64_t apart = 1;                     // of the results
  std::vector<std::int64_t> of_indices = {};  // their strides, where they differ
};

const Case kCases[] = {
    {{8, 8}, {8, 1}, 1, true},               // columns
    {{8, 8}, {8, 1}, 2, true},               // as many rows as columns
    {{8, 8}, {8, 1}, 1, true, 3},            // results that are not dense
    {{8, 8}, {1, 8}, 1, true},               // a transposed matrix
    {{3, 40}, {40, 1}, 2, true},             // rows
    {{3, 40}, {40, 1}, 2, true, 2},          // rows, results that are not dense
    {{1000, 4}, {4, 1}, 2, true},            // many short rows
    {{1000, 4}, {0, 1}, 2, false},           // one row many times
    {{50}, {1}, 1, true},                    // one result
    {{5, 1}, {1, 1}, 2, true},               // nothing to choose
    {{4, 3, 5}, {15, 5, 1}, 4, true},        // rows that are merged
    {{4, 3, 5}, {15, 5, 1}, 2, false},       // columns in blocks
    {{4, 3, 5}, {15, 5, 1}, 6, true},        // two dimensions at once
    {{8, 9}, {9, 1}, 1, true, 1, {1, 0}},    // columns, with an index for each row
    {{5, 37}, {40, 1}, 1, true, 1, {2, 0}},  //
    {{3, 40}, {40, 1}, 2, true, 1, {0, 1}},  // rows, with the same indices
    {{300, 200}, {200, 1}, 2, false},        // too many
    {{0, 4}, {4, 1}, 1, false},              // nothing
};

TEST(PlacesOfTheBest) {
  std::mt19937 random(3);
  for (const Case& c : kCases) {
    for (const bool largest : {true, false}) {
      for (const bool nan : {false, true}) {
        std::int64_t size = 1;
        HostTensor value, index;
        value.rank = index.rank = static_cast<int>(c.shape.size());
        for (int d = 0; d < value.rank; ++d) {
          const auto at = static_cast<std::size_t>(d);
          value.shape[d] = index.shape[d] = c.shape[at];
          value.strides[d] = c.strides[at];
          index.strides[d] = (c.of_indices.empty() ? c.strides : c.of_indices)[at];
          size += std::max<std::int64_t>(c.shape[at] - 1, 0) * c.strides[at];
        }
        std::vector<float> values(static_cast<std::size_t>(size));
        std::vector<std::int32_t> indices(static_cast<std::size_t>(size));
        for (float& v : values) v = nan && random() % 20 == 0 ? NAN : static_cast<float>(random() % 9);
        for (std::int32_t& i : indices) i = static_cast<std::int32_t>(random() % 1000);
        value.type = DType::kF32;
        value.data = values.data();
        index.type = DType::kS32;
        index.data = indices.data();
        float worst = largest ? 2 : 6;  // better than some of the values
        std::int32_t place = 500;
        HostTensor init_value, init_index, best_value, best_index;
        init_value.type = best_value.type = DType::kF32;
        init_index.type = best_index.type = DType::kS32;
        init_value.data = &worst;
        init_index.data = &place;
        std::int64_t results = c.apart;
        for (int d = value.rank; d-- > 0;) {
          if ((c.dimensions >> d & 1) != 0) continue;
          for (HostTensor* t : {&best_value, &best_index}) {
            for (int e = t->rank++; e > 0; --e) {
              t->shape[e] = t->shape[e - 1];
              t->strides[e] = t->strides[e - 1];
            }
            t->shape[0] = value.shape[d];
            t->strides[0] = results;
          }
          results *= value.shape[d];
        }
        std::vector<float> bests(static_cast<std::size_t>(results) + 1);
        std::vector<std::int32_t> places(bests.size());
        best_value.data = bests.data();
        best_index.data = places.data();
        const ReduceKernel kernel(BestAndPlace(largest, DType::kF32));
        Scratch scratch;
        HostContext context{ThreadPool::Global(), scratch};
        const HostTensor in[2] = {value, index}, inits[2] = {init_value, init_index},
                         out[2] = {best_value, best_index};
        const int bound = CheckBound(
            {value, index, init_value, init_index}, {best_value, best_index},
            [&] { kernel.Run(context, in, inits, c.dimensions, out); },
            [&](const auto& bound_in, const auto& bound_out) {
              return kernel.Bind(bound_in.data(), c.dimensions, bound_out.data());
            });
        CHECK_EQ(bound, c.bound ? 2 : 0);
      }
    }
  }
}

}  // namespace
}  // namespace ipu_model
