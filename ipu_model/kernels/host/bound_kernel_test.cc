// Compares bound slices, copies, reductions and rows of scalar programs with the unbound kernels.
// elementwise_test compares the other elementwise kernels.
#include "kernels/host/bound_kernel.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <vector>

#include "check.h"
#include "kernels/copy/slice.h"
#include "kernels/copy/strided_copy.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/host/dense_tensor.h"
#include "kernels/reduce/reduce.h"
#include "testing/bound_kernel_check.h"

namespace ipu_model {
namespace {

using Shape = std::vector<std::int64_t>;

std::int64_t Count(const Shape& shape) {
  std::int64_t n = 1;
  for (const std::int64_t d : shape) n *= d;
  return n;
}

// Random bytes, and a tensor over them whose dimensions are stored in `order`, innermost last.
struct Random {
  explicit Random(DType type, const Shape& shape, std::vector<int> order = {}, std::int64_t spread = 1)
      : bytes(static_cast<std::size_t>(Count(shape) * spread) * SizeOf(type) + 16) {
    std::mt19937 random(static_cast<unsigned>(bytes.size()));
    // Small exponents keep sums finite.
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
                        {{6, 5, 4}, {2, 5, 3}, {2, 0, 1}, 1},
                        {{5, 33}, {1, 31}, {}, 1},
                        {{40, 5}, {17, 5}, {}, 1},
                        {{3, 60}, {2, 1}, {1, 0}, 1}};
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
        const auto update = [&](const HostTensor& out, bool in_place) {
          return CheckBound(
              in, {out}, [&] { DynamicUpdateSlice(context.host, in[0], in[1], in.data() + 2, out); },
              [&](const auto& i, const auto& o) { return BindDynamicUpdateSlice(i.data(), o[0], in_place); });
        };
        CHECK(update(same.tensor, false) >= 1);
        CHECK(update(operand.tensor, false) >= 1);
        CHECK_EQ(update(operand.tensor, true), 2);  // also where the addresses are not known
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
          if (spread == 1 && random() % 2 == 0) values.tensor.strides[random() % shape.size()] = 0;
          for (const ScalarOp op : {ScalarOp::kAdd, ScalarOp::kMaximum}) {
            const ReduceKernel kernel(Body(op, type));
            bound += CheckBound(
                {values.tensor, init.tensor}, {result.tensor},
                [&] { kernel.Run(context.host, &values.tensor, &init.tensor, mask, &result.tensor); },
                [&](const auto& i, const auto& o) { return kernel.Bind(i.data(), mask, o.data()); });
          }
        }
      }
    }
  }
  CHECK(bound > 500);
}

// a row scalar & a row of the mask ? a - row scalar * row : a
Expression MaskedUpdate(DType type) {
  Expression e;
  e.inputs = {DType::kPred, DType::kPred, type, type, type};
  const auto add = [&e](ScalarOp op, DType operand, std::initializer_list<std::uint16_t> operands) {
    Instruction instruction;
    instruction.op = op;
    instruction.operand_type = instruction.result_type = operand;
    std::copy(operands.begin(), operands.end(), instruction.operand);
    e.code.push_back(instruction);
  };
  add(ScalarOp::kAnd, DType::kPred, {0, 1});
  add(ScalarOp::kMultiply, type, {2, 3});
  add(ScalarOp::kSubtract, type, {4, 6});
  add(ScalarOp::kSelect, type, {5, 7, 4});
  e.outputs = {8, 2};
  return e;
}

TEST(RowsOneAfterTheOther) {
  const std::vector<Shape> shapes = {{5, 64}, {7, 33}, {3, 4, 40}, {2, 1, 3, 35}, {2, 3, 2, 70}, {2, 500}};
  int bound = 0;
  for (const Shape& shape : shapes) {
    const auto rank = static_cast<int>(shape.size());
    for (const DType type : {DType::kF32, DType::kBF16, DType::kF64, DType::kS8, DType::kU32, DType::kC64}) {
      const ElementwiseKernel kernel(MaskedUpdate(type));
      for (int form = 0; form < 8; ++form) {
        // Row scalars have stride 0 along the last dimension. Rows have stride 0 along one of the other
        // dimensions, or all.
        const auto row_scalar = [&](HostTensor t) {
          t.strides[rank - 1] = 0;
          return t;
        };
        const auto row = [&](HostTensor t) {
          std::fill_n(t.strides, form % 2 == 0 ? rank - 1 : 1, 0);
          return t;
        };
        std::vector<int> reversed;
        for (int d = rank; d-- > 0;) reversed.push_back(d);
        Context context;
        Random rows(DType::kPred, shape), columns(DType::kPred, shape), left(type, shape),
            right(type, shape, form & 2 ? reversed : std::vector<int>()), matrix(type, shape),
            copy(type, shape);
        for (Random* mask : {&rows, &columns})
          for (unsigned char& b : mask->bytes) b &= 1;
        const HostTensor& result = form & 4 ? matrix.tensor : copy.tensor;
        Random second(type, shape);
        bound += CheckBound(
            {row_scalar(rows.tensor), row(columns.tensor), row_scalar(left.tensor), row(right.tensor),
             matrix.tensor},
            {result, second.tensor},
            [&] {
              const HostTensor in[] = {row_scalar(rows.tensor), row(columns.tensor), row_scalar(left.tensor),
                                       row(right.tensor), matrix.tensor};
              const HostTensor out[] = {result, second.tensor};
              kernel.Run(context.host, in, out);
            },
            [&](const auto& i, const auto& o) { return kernel.Bind(i.data(), o.data()); });
      }
    }
  }
  CHECK(bound > 500);
}

TEST(LongRowsAreNotBound) {
  Random matrix(DType::kF32, {64, 8192});
  const ElementwiseKernel kernel(Body(ScalarOp::kAdd, DType::kF32));
  HostTensor row = matrix.tensor;
  row.strides[0] = 0;
  const HostTensor in[] = {matrix.tensor, row};
  CHECK(kernel.Bind(in, &matrix.tensor) == nullptr);
}

TEST(TensorsWithoutElementsAreDense) {
  CHECK(IsDense(Random(DType::kF32, {2, 3}).tensor));
  CHECK(!IsDense(Random(DType::kF32, {2, 3}, {1, 0}).tensor));
  CHECK(IsDense(Random(DType::kF32, {1, 3}, {1, 0}).tensor));
  CHECK(IsDense(Random(DType::kF32, {2, 0, 3}, {2, 1, 0}).tensor));
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
