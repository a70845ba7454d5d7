// Elementwise expressions of complex numbers: kernel and expansion have the same vertices and values.
#include <limits>

#include "hlo/Elementwise.hpp"
#include "testing/codelet_cache.h"
#include "testing/expansion_check.h"
#include "testing/numbers.h"
#include "testing/scalar_operations.h"
#include "testing/test_instructions.h"

namespace hlo::testing {
namespace {

using poplar::Graph;
using poplar::Tensor;
using poplar::program::Sequence;

const toy::SharedCodeletCache cache;

// One instruction for each row, on complex numbers and their parts.
void CheckComplex(const std::vector<Bytes>& values, const std::vector<OperationRow>& rows) {
  const DType z = DType::kC64, f = DType::kF32;
  Expression e;
  e.inputs = {z, z, kP, f, f};
  for (const OperationRow& row : rows) {
    e.outputs.push_back(static_cast<std::uint16_t>(5 + e.code.size()));
    const bool fromParts = row.op == ScalarOp::kComplex || row.op == ScalarOp::kConvert;
    const DType result = row.result == kSame ? z : row.result;
    e.code.push_back(row.op == ScalarOp::kSelect ? Op(row.op, z, result, 2, 0, 1)
                     : fromParts                 ? Op(row.op, f, result, 3, 4)
                                                 : Op(row.op, z, result, 0, 1));
  }
  Graph graph = SmallGraph();
  const std::size_t n = values.at(0).size() / SizeOf(z);
  std::vector<Tensor> inputs;
  for (const DType type : e.inputs) inputs.push_back(Linear(graph, type, {n}));
  Sequence prog;
  const std::vector<Tensor> outputs =
      hlo::map(graph, e, inputs, std::vector<Tensor>(e.outputs.size()), prog, "map");
  ExpansionCheck check(graph, prog, inputs, outputs);
  check.SameVertices();
  check.SameValues(values, Close);
}

const std::vector<OperationRow> kComplexArithmetic = {{ScalarOp::kAdd, kSame},
                                                      {ScalarOp::kSubtract, kSame},
                                                      {ScalarOp::kMultiply, kSame},
                                                      {ScalarOp::kDivide, kSame},
                                                      {ScalarOp::kNegate, kSame},
                                                      {ScalarOp::kSquare, kSame},
                                                      {ScalarOp::kInverse, kSame},
                                                      {ScalarOp::kSelect, kSame},
                                                      {ScalarOp::kEq, kP},
                                                      {ScalarOp::kNe, kP},
                                                      {ScalarOp::kIsFinite, kP},
                                                      {ScalarOp::kAbs, DType::kF32},
                                                      {ScalarOp::kReal, DType::kF32},
                                                      {ScalarOp::kImag, DType::kF32},
                                                      {ScalarOp::kComplex, kSame},
                                                      {ScalarOp::kConvert, kSame},
                                                      {ScalarOp::kSign, kSame}};

TEST(ComplexNumbers) {
  std::vector<OperationRow> rows = kComplexArithmetic;
  for (const ScalarOp op :
       {ScalarOp::kExp, ScalarOp::kExpm1, ScalarOp::kLog, ScalarOp::kLog1p, ScalarOp::kLogistic,
        ScalarOp::kSqrt, ScalarOp::kRsqrt, ScalarOp::kSin, ScalarOp::kCos, ScalarOp::kTan, ScalarOp::kTanh})
    rows.push_back({op, kSame});
  std::vector<Bytes> values;
  Graph graph = SmallGraph();
  for (const DType type : {DType::kC64, DType::kC64, kP, DType::kF32, DType::kF32}) {
    const Tensor t = Linear(graph, type, {999});
    const unsigned seed = static_cast<unsigned>(values.size()) + 1;
    values.push_back(type == kP ? RandomElements(kP, 999, seed, true)
                                : Parts(t, seed, [](std::vector<float>* x) {
                                    for (std::size_t i = 0; i < x->size(); ++i) (*x)[i] *= i % 5 == 0 ? 3 : 1;
                                  }));
  }
  CheckComplex(values, rows);
}

// Every pair of zeros, infinities, NaN and ordinary numbers, as numerator and denominator.
TEST(ComplexNumbersThatAreNotFinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float parts[] = {0.0f, -0.0f, 2, -3, infinity, -infinity, std::numeric_limits<float>::quiet_NaN()};
  std::vector<float> a, b, re, im;
  for (const float ar : parts) {
    for (const float ai : parts) {
      for (const float br : parts) {
        for (const float bi : parts) {
          a.insert(a.end(), {ar, ai});
          b.insert(b.end(), {br, bi});
          re.push_back(ar);
          im.push_back(ai);
        }
      }
    }
  }
  const auto bytesOf = [](const std::vector<float>& x) {
    Bytes bytes(x.size() * sizeof(float));
    std::memcpy(bytes.data(), x.data(), bytes.size());
    return bytes;
  };
  CheckComplex({bytesOf(a), bytesOf(b), RandomElements(kP, re.size(), 1, true), bytesOf(re), bytesOf(im)},
               kComplexArithmetic);
}

}  // namespace
}  // namespace hlo::testing
