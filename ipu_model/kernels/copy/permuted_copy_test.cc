// Planned copies of every element size, by the loops of every instruction set, against copies element by
// element.
#include "kernels/copy/permuted_copy.h"

#include <cstring>
#include <vector>

#include "check.h"
#include "kernels/copy/strided_copy.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/host/isa.h"
#include "testing/bound_kernel_check.h"
#include "testing/strided_boxes.h"

namespace ipu_model {
namespace {

using toy::CopyElements;
using toy::StridedBox;

struct Extent {
  std::int64_t low = 0, size = 1;  // from the first element to the lowest one, and the elements in between
};
Extent ExtentOf(const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& strides) {
  Extent extent;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const std::int64_t reach = (shape[d] - 1) * strides[d];
    extent.low += std::min<std::int64_t>(reach, 0);
    extent.size += std::abs(reach);
  }
  return extent;
}

std::optional<PermutedCopy> Plan(const StridedBox& box, std::int64_t size) {
  std::vector<std::int64_t> src, dst;
  for (std::size_t d = 0; d < box.shape.size(); ++d) {
    src.push_back(box.src[d] * size);
    dst.push_back(box.dst[d] * size);
  }
  return PlanPermutedCopy(static_cast<int>(box.shape.size()), box.shape.data(), src.data(), dst.data(),
                          static_cast<std::size_t>(size));
}

// Boxes of which few elements lie far apart.
const std::vector<StridedBox> kBoxes = {
    {{7}, {2}, {1}},
    {{33}, {-1}, {1}},
    {{50}, {1}, {3}},
    {{16, 3}, {4, 1}, {3, 1}},              // three of four columns
    {{9, 7, 3}, {7, 1, 0}, {21, 3, 1}},     // a value per row
    {{8, 5, 3}, {0, 0, 1}, {15, 3, 1}},     // a row for all
    {{6, 5}, {1, 6}, {5, 1}},               // a transpose
    {{6, 5}, {5, 1}, {1, 6}},               // into a transpose
    {{3, 5, 7}, {-35, 7, -1}, {35, 7, 1}},  // reversed
    {{2, 1, 17}, {40, 9, 2}, {17, 17, 1}},
    {{31, 2}, {2, 1}, {-2, 1}},
    {{4, 15}, {16, 1}, {15, 1}},
};

TEST(CopiesEqualLoops) {
  int planned = 0;
  for (const StridedBox& box : kBoxes) {
    for (const std::int64_t size : {1, 2, 4, 8, 16}) {
      const std::optional<PermutedCopy> plan = Plan(box, size);
      if (!plan) continue;
      ++planned;
      const Extent from = ExtentOf(box.shape, box.src), to = ExtentOf(box.shape, box.dst);
      // Exactly the elements' memory, so that sanitizers see accesses beyond it.
      std::vector<unsigned char> src(static_cast<std::size_t>(from.size * size));
      for (std::size_t i = 0; i < src.size(); ++i) src[i] = static_cast<unsigned char>(i * 167 + i / 251);
      const unsigned char* const first = src.data() - from.low * size;
      std::vector<unsigned char> expected(static_cast<std::size_t>(to.size * size), 0xa5);
      CopyElements(box, 0, first, expected.data() - to.low * size, size);
      for (const bool wide : {false, true}) {
        if (wide && !HasAvx512()) continue;
        std::vector<unsigned char> dst(expected.size(), 0xa5);
        (wide ? avx512::RunPermutedCopy : avx2::RunPermutedCopy)(*plan, first, dst.data() - to.low * size);
        CHECK(dst == expected);
      }
    }
  }
  CHECK(planned > static_cast<int>(kBoxes.size()) * 2);
}

TEST(PlansNoCopiesThatLoopsDoAsWell) {
  CHECK(!Plan({{}, {}, {}}, 4));
  CHECK(!Plan({{0, 3}, {3, 1}, {3, 1}}, 4));
  CHECK(!Plan({{4, 64}, {65, 1}, {64, 1}}, 4));  // long segments
  CHECK(!Plan({{4, 64}, {1, 0}, {64, 1}}, 4));
  CHECK(!Plan({{64}, {100}, {1}}, 4));              // every element is far from the others
  CHECK(!Plan({{5000, 3}, {4, 1}, {3, 1}}, 4));     // many elements
  CHECK(!Plan({{2, 3}, {1 << 30, 1}, {3, 1}}, 4));  // beyond 32 bits
  CHECK(Plan({{64, 3}, {4, 1}, {3, 1}}, 4).has_value());
}

// Strided copies in lists of calls take the plan.
TEST(BoundCopies) {
  HostTensor src, dst;
  std::vector<std::int32_t> values(64 * 4), packed(64 * 3, -1);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int32_t>(i);
  src.type = dst.type = DType::kS32;
  src.rank = dst.rank = 2;
  src.shape[0] = dst.shape[0] = 64;
  src.shape[1] = dst.shape[1] = 3;
  src.strides[0] = 4;
  dst.strides[0] = 3;
  src.strides[1] = dst.strides[1] = 1;
  src.data = values.data();
  dst.data = packed.data();
  CallList list;
  CHECK(AddCopy(&list, src, CallList::Input(0), dst, CallList::Output(0)));
  CHECK_EQ(list.size(), std::size_t{1});
  list.Point(&src, &dst, nullptr);
  list.Run();
  for (std::size_t i = 0; i < packed.size(); ++i)
    CHECK_EQ(packed[i], static_cast<std::int32_t>(i / 3 * 4 + i % 3));
}

HostTensor Strided(const StridedBox& box, const std::vector<std::int64_t>& strides, DType type,
                   std::vector<unsigned char>* memory) {
  const Extent extent = ExtentOf(box.shape, strides);
  const auto size = static_cast<std::int64_t>(SizeOf(type));
  memory->resize(static_cast<std::size_t>(extent.size * size));
  for (std::size_t i = 0; i < memory->size(); ++i) (*memory)[i] = static_cast<unsigned char>(i % 2);
  HostTensor t;
  t.type = type;
  t.data = memory->data() - extent.low * size;
  t.rank = static_cast<int>(box.shape.size());
  std::copy(box.shape.begin(), box.shape.end(), t.shape);
  std::copy(strides.begin(), strides.end(), t.strides);
  return t;
}

// Bound elementwise kernels read and write strided blocks by plans.
TEST(BoundElementwiseKernels) {
  const FlushDenormals flush;
  int bound = 0;
  for (const StridedBox& box : kBoxes) {
    for (const DType type : {DType::kPred, DType::kS8, DType::kU16, DType::kF16, DType::kF32, DType::kS64}) {
      std::vector<unsigned char> from, to;
      const std::vector<HostTensor> in = {Strided(box, box.src, type, &from)},
                                    out = {Strided(box, box.dst, type, &to)};
      Expression e;
      e.inputs = {type};
      e.code = {{ScalarOp::kAdd, type, type, {0, 0, 0}, 0}};
      if (type == DType::kPred) e.code[0].op = ScalarOp::kXor;
      e.outputs = {1};
      const ElementwiseKernel kernel(e);
      Scratch scratch;
      HostContext context{ThreadPool::Global(), scratch};
      bound += CheckBound(
          in, out, [&] { kernel.Run(context, in, out); },
          [&](const auto& bound_in, const auto& bound_out) {
            return kernel.Bind(bound_in.data(), bound_out.data());
          });
    }
  }
  CHECK(bound > static_cast<int>(kBoxes.size()) * 6);
}

}  // namespace
}  // namespace ipu_model
