// The functions that read operations from a serialised executable; registry.cc has one line per kind.
#ifndef IPU_MODEL_OPERATIONS_READERS_H_
#define IPU_MODEL_OPERATIONS_READERS_H_

#include <memory>

#include "core/operation/operation.h"

namespace ipu_model {

std::unique_ptr<Operation> ReadConvolution(Reader& reader);
std::unique_ptr<Operation> ReadDynamicSlice(Reader& reader);
std::unique_ptr<Operation> ReadDynamicUpdate(Reader& reader);
std::unique_ptr<Operation> ReadFill(Reader& reader);
std::unique_ptr<Operation> ReadGather(Reader& reader);
std::unique_ptr<Operation> ReadIota(Reader& reader);
std::unique_ptr<Operation> ReadMap(Reader& reader);
std::unique_ptr<Operation> ReadReduce(Reader& reader);
std::unique_ptr<Operation> ReadMatMul(Reader& reader);
std::unique_ptr<Operation> ReadReduceWindow(Reader& reader);
std::unique_ptr<Operation> ReadScatter(Reader& reader);
std::unique_ptr<Operation> ReadSelectAndScatter(Reader& reader);
std::unique_ptr<Operation> ReadSort(Reader& reader);
std::unique_ptr<Operation> ReadTopK(Reader& reader);
std::unique_ptr<Operation> ReadRandomBits(Reader& reader);
std::unique_ptr<Operation> ReadThreefry(Reader& reader);
std::unique_ptr<Operation> ReadApplyReflectors(Reader& reader);
std::unique_ptr<Operation> ReadCholesky(Reader& reader);
std::unique_ptr<Operation> ReadImplicitQr(Reader& reader);
std::unique_ptr<Operation> ReadLuPanel(Reader& reader);
std::unique_ptr<Operation> ReadQrPanel(Reader& reader);
std::unique_ptr<Operation> ReadSchur(Reader& reader);
std::unique_ptr<Operation> ReadTriangularSolve(Reader& reader);
std::unique_ptr<Operation> ReadTwoSided(Reader& reader);
std::unique_ptr<Operation> ReadFft(Reader& reader);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_READERS_H_
