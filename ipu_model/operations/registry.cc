// The table of readers by operation kind.
#include <map>
#include <string>

#include "core/program/copy.h"
#include "core/program/cycle_stamp.h"
#include "core/program/execute.h"
#include "operations/collectives/replica_collective.h"
#include "operations/readers.h"

namespace ipu_model {

const std::map<std::string, OperationReader, std::less<>>& OperationRegistry() {
  static const std::map<std::string, OperationReader, std::less<>> registry = {
      {"hlo::reduceWindow", ReadReduceWindow},
      {"hlo::selectAndScatter", ReadSelectAndScatter},
      {"hlo::cycleStamp", ReadCycleStamp},
      {"poplar::copy", ReadCopy},
      {"poplar::execute", ReadExecute},
      {"poplin::convolution", ReadConvolution},
      {"popops::dynamicSlice", ReadDynamicSlice},
      {"popops::dynamicUpdate", ReadDynamicUpdate},
      {"popops::fill", ReadFill},
      {"popops::gather", ReadGather},
      {"popops::iota", ReadIota},
      {"popops::map", ReadMap},
      {"popops::reduce", ReadReduce},
      {"popops::scatter", ReadScatter},
      {"poplin::matMulGrouped", ReadMatMul},
      {"popops::sort", ReadSort},
      {"popops::topK", ReadTopK},
      {"hlo::rngBitGenerator", ReadRandomBits},
      {"hlo::threefry2x32", ReadThreefry},
      {"poplin::cholesky", ReadCholesky},
      {"poplin::triangularSolve", ReadTriangularSolve},
      {"hlo::fft", ReadFft},
      {"hlo::implicitQr", ReadImplicitQr},
      {"hlo::applyReflectors", ReadApplyReflectors},
      {"hlo::luPanel", ReadLuPanel},
      {"hlo::qrPanel", ReadQrPanel},
      {"hlo::schur", ReadSchur},
      {"hlo::twoSided", ReadTwoSided},
      {"gcl::collective", ReadReplicaCollective},
  };
  return registry;
}

}  // namespace ipu_model
