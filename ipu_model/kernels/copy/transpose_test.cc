// Transposition of square tiles for every element size and instruction set, and the copies and elementwise
// kernels that use it.
#include "kernels/copy/transpose.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "check.h"
#include "kernels/copy/strided_copy.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/host/context.h"

namespace ipu_model {
namespace {

std::vector<unsigned char> Numbers(std::int64_t n) {
  std::vector<unsigned char> bytes(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i * 167 + i / 251);
  return bytes;
}

// Returns whether to[i][k] == from[k][i]. Elements have `size` bytes, strides are in bytes.
bool IsTransposed(std::int64_t rows, std::int64_t columns, std::int64_t size, const unsigned char* from,
                  std::int64_t from_stride, const unsigned char* to, std::int64_t to_stride) {
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t k = 0; k < columns; ++k) {
      if (std::memcmp(to + i * to_stride + k * size, from + k * from_stride + i * size,
                      static_cast<std::size_t>(size)) != 0)
        return false;
    }
  }
  return true;
}

TEST(SquaresOfLines) {
  for (const bool wide : {false, true}) {
    if (wide && !HasAvx512()) continue;
    for (const std::int64_t size : {1, 2, 4, 8}) {
      const std::int64_t side = kLineBytes / size, from_stride = kLineBytes + 3 * size,
                         to_stride = kLineBytes + 5 * size;
      const std::vector<unsigned char> from = Numbers(side * from_stride);
      std::vector<unsigned char> to(static_cast<std::size_t>(side * to_stride), 0);
      const auto bytes = static_cast<std::size_t>(size);
      (wide ? avx512::FindTransposeLines(bytes) : avx2::FindTransposeLines(bytes))(from.data(), from_stride,
                                                                                   to.data(), to_stride);
      CHECK(IsTransposed(side, side, size, from.data(), from_stride, to.data(), to_stride));
      for (std::int64_t i = 0; i < side - 1; ++i)
        for (std::int64_t b = kLineBytes; b < to_stride; ++b)
          CHECK_EQ(to[static_cast<std::size_t>(i * to_stride + b)], 0);
    }
  }
}

struct Matrices {
  HostTensor from, to;  // a view of the input along its columns
};
Matrices Transposed(DType type, std::int64_t rows, std::int64_t columns, unsigned char* from,
                    unsigned char* to) {
  Matrices m;
  m.from.data = from;
  m.to.data = to;
  for (HostTensor* t : {&m.from, &m.to}) {
    t->type = type;
    t->rank = 2;
    t->shape[0] = rows;
    t->shape[1] = columns;
  }
  m.from.strides[0] = 1;
  m.from.strides[1] = rows;
  m.to.strides[0] = columns;
  m.to.strides[1] = 1;
  return m;
}

TEST(MatricesOfAnySize) {
  Scratch scratch;
  HostContext context{ThreadPool::Global(), scratch};
  for (const DType type : {DType::kU8, DType::kU16, DType::kU32, DType::kU64}) {
    const auto size = static_cast<std::int64_t>(SizeOf(type));
    Expression expression;
    expression.inputs = {type};
    Instruction twice;
    twice.op = ScalarOp::kNot;
    twice.operand_type = twice.result_type = type;
    expression.code = {twice, twice};
    expression.code[1].operand[0] = 1;
    expression.outputs = {2};
    const ElementwiseKernel kernel(expression);
    for (const auto& [rows, columns] : std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 300},
                                                                                          {64, 64},
                                                                                          {7, 129},
                                                                                          {16, 1000},
                                                                                          {80, 70},
                                                                                          {129, 67},
                                                                                          {65, 192},
                                                                                          {512, 512},
                                                                                          {300, 9}}) {
      std::vector<unsigned char> from = Numbers(rows * columns * size);
      std::vector<unsigned char> to(from.size(), 0);
      const Matrices m = Transposed(type, rows, columns, from.data(), to.data());
      CopyTensor(context, m.from, m.to);
      CHECK(IsTransposed(rows, columns, size, from.data(), rows * size, to.data(), columns * size));
      // The elementwise kernel's block walk, from the source's order and back.
      std::fill(to.begin(), to.end(), 0);
      kernel.Run(context, {m.from}, {m.to});
      CHECK(IsTransposed(rows, columns, size, from.data(), rows * size, to.data(), columns * size));
      std::vector<unsigned char> back(from.size(), 0);
      HostTensor restored = m.from;
      restored.data = back.data();
      kernel.Run(context, {m.to}, {restored});
      CHECK(back == from);
    }
  }
}

}  // namespace
}  // namespace ipu_model
