// Bound slices, copies and reductions against the kernels they stand for. Elementwise kernels are compared in
// elementwise_test.
#include "pjrt_plugin/ipu_model/kernels/bound_kernel.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "pjrt_plugin/ipu_model/kernels/bound_kernel_check.h"
#include "pjrt_plugin/ipu_model/kernels/reduce.h"
#include "pjrt_plugin/ipu_model/kernels/slice.h"
#include "pjrt_plugin/testing/check.h"

namespace ipu_model {
namespace {

using Shape = std::vector<std::int64_t>;

std::int64_t Count(const Shape& shape) {
  std::int64_t n = 1;
  for (const std::int64_t d : shape) n *= d;
  return n;
}

// Memory with random bytes, and a tensor in it whose dimensions lie in `order`, innermost last.
struct Random {
  explicit Random(DType type, const Shape& shape, std::vector<int> order = {}, std::int64_t spread = 1)
      : bytes(static_cast<std::size_t>(Count(shape) * spread) * SizeOf(type) + 16) {
    std::mt19937 random(static_cast<unsigned>(bytes.size()));
    // Small exponents: sums stay finite.
    for (unsigned char& b : bytes) b = static_cast<unsigned char>(random() % 64);
    tensor.data = bytes.data();
    tensor.type = type;
    tensor.rank = static_cast<int>(shape.size());
    for (int d = 0; d < tensor.rank && order.size() < shape.size(); ++d) order.push_back(d);
    std::int64_t stride = spread;
    for (std::size_t k = shape.size(); k-- > 0;) {
      const auto d = static_cast<std::size_t>(order[k]);
      tensor.shape[d] = shape[d];
      tensor.strides[d] = stride;
      stride *= shape[d];
    }
  }
  std::vector<unsigned char> bytes;
  HostTensor tensor;
};

HostTensor Scalar(std::int32_t* value) {
  HostTensor t;
  t.data = value;
  t.type = DType::kS32;
  return t;
}

Expression Body(ScalarOp op, DType type) {
  Expression e;
  e.inputs = {type, type};
  Instruction instruction;
  instruction.op = op;
  instruction.operand_type = instruction.result_type = type;
  instruction.operand[1] = 1;
  e.code = {instruction};
  e.outputs = {2};
  return e;
}

struct Context {
  Scratch scratch;
  HostContext host{ThreadPool::Global(), scratch};
};

TEST(SlicesAreTakenAndWrittenAtClampedStarts) {
  struct Case {
    Shape operand, slice;
    std::vector<int> order;
    std::int64_t spread;
  };
  const Case cases[] = {{{9}, {1}, {}, 1},
                        {{9}, {9}, {}, 1},
                        {{9}, {4}, {}, 2},
                        {{7, 5}, {1, 5}, {}, 1},
                        {{7, 5}, {7, 2}, {1, 0}, 1},
                        {{7, 5}, {7, 5}, {}, 1},
                        {{6, 5, 4}, {2, 5, 3}, {2, 0, 1}, 1}};
  for (const Case& c : cases) {
    for (const DType type : {DType::kS8, DType::kBF16, DType::kF32, DType::kF64, DType::kC128}) {
      for (const std::int32_t at : {-3, 0, 1, 2, 100}) {
        Context context;
        Random operand(type, c.operand, c.order, c.spread), slice(type, c.slice), same(type, c.operand);
        std::int32_t start = at, next = at / 2;
        std::vector<HostTensor> in = {operand.tensor};
        for (std::size_t d = 0; d < c.operand.size(); ++d) in.push_back(Scalar(d == 0 ? &start : &next));
        int bound = CheckBound(
            in, {slice.tensor}, [&] { DynamicSlice(context.host, in[0], in.data() + 1, slice.tensor); },
            [](const auto& i, const auto& o) { return BindDynamicSlice(i.data(), o[0]); });
        CHECK_EQ(bound, 2);
        in.insert(in.begin() + 1, slice.tensor);
        const auto update = [&](const HostTensor& out) {
          return CheckBound(
              in, {out}, [&] { DynamicUpdateSlice(context.host, in[0], in[1], in.data() + 2, out); },
              [](const auto& i, const auto& o) { return BindDynamicUpdateSlice(i.data(), o[0]); });
        };
        CHECK(update(same.tensor) >= 1);
        CHECK(update(operand.tensor) >= 1);  // in place
      }
    }
  }
}

TEST(LargeSlicesAreNotBound) {
  Random operand(DType::kF32, {1 << 16}), slice(DType::kF32, {1 << 15});
  std::int32_t start = 0;
  const HostTensor in[] = {operand.tensor, Scalar(&start)};
  CHECK(BindDynamicSlice(in, slice.tensor) == nullptr);
}

TEST(ReductionsCombineInTheSameOrder) {
  const std::vector<Shape> shapes = {{1}, {64}, {1000}, {3, 70}, {70, 3}, {5, 40}, {2, 3, 33}, {4, 1, 6, 50}};
  std::mt19937 random(1);
  int bound = 0;
  for (const Shape& shape : shapes) {
    for (std::uint32_t mask = 0; mask < 1u << shape.size(); ++mask) {
      for (const std::int64_t spread : {1, 2}) {
        for (const DType type : {DType::kF32, DType::kBF16, DType::kS32, DType::kU8, DType::kS4}) {
          Context context;
          std::vector<int> order;
          for (std::size_t d = 0; d < shape.size(); ++d) order.push_back(static_cast<int>(d));
          if (random() % 2 == 0) std::shuffle(order.begin(), order.end(), random);
          Shape kept;
          for (std::size_t d = 0; d < shape.size(); ++d)
            if ((mask >> d & 1) == 0) kept.push_back(shape[d]);
          Random values(type, shape, order), init(type, {}), result(type, kept, {}, spread);
          for (const ScalarOp op : {ScalarOp::kAdd, ScalarOp::kMaximum}) {
            const ReduceKernel kernel(Body(op, type));
            bound += CheckBound(
                {values.tensor, init.tensor}, {result.tensor},
                [&] { kernel.Run(context.host, &values.tensor, &init.tensor, mask, &result.tensor); },
                [&](const auto& i, const auto& o) { return kernel.Bind(i.data(), mask, o[0]); });
          }
        }
      }
    }
  }
  CHECK(bound > 500);
}

TEST(CopiesOfAnyStrides) {
  for (const Shape& shape : std::vector<Shape>{{}, {1}, {5}, {3, 4}, {2, 3, 5}}) {
    for (const std::int64_t spread : {1, 3}) {
      Context context;
      std::vector<int> reversed;
      for (std::size_t d = shape.size(); d-- > 0;) reversed.push_back(static_cast<int>(d));
      Random from(DType::kS16, shape, reversed, spread), to(DType::kS16, shape);
      const int bound = CheckBound(
          {from.tensor}, {to.tensor}, [&] { CopyTensor(context.host, from.tensor, to.tensor); },
          [](const auto& i, const auto& o) -> std::unique_ptr<BoundKernel> {
            auto list = std::make_unique<CallList>();
            if (!AddCopy(list.get(), i[0], CallList::Input(0), o[0], CallList::Output(0))) return nullptr;
            return list;
          });
      CHECK_EQ(bound, 2);
    }
  }
}

}  // namespace
}  // namespace ipu_model

int main() { return jax_ipu::testing::RunTests(); }
