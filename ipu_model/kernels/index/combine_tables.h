// Many numbers that are combined into few places: every thread has tables of its own.
#ifndef IPU_MODEL_KERNELS_INDEX_COMBINE_TABLES_H_
#define IPU_MODEL_KERNELS_INDEX_COMBINE_TABLES_H_

#include <cstdint>

#include "kernels/host/context.h"
#include "kernels/index/combine_windows.h"

namespace ipu_model {

// Whether n rows of single elements, with dense s32 indices (WindowRows::Elements), are combined faster in
// tables. Only integers are, whose result does not depend on the order.
bool CombinesInTables(Combine combine, DType type, const WindowRows::Elements& elements, std::int64_t n);

// Combines n such rows into `out`.
void CombineInTables(HostContext& context, Combine combine, DType type, const WindowRows::Elements& elements,
                     std::int64_t n, const void* updates, void* out);

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_INDEX_COMBINE_TABLES_H_
