// Arithmetic on shapes and strides that views and copies share.
#ifndef IPU_MODEL_CORE_MAPPING_STRIDES_H_
#define IPU_MODEL_CORE_MAPPING_STRIDES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/mapping/box.h"

namespace ipu_model {

// The shape as the model has it, of one as Poplar has it.
inline Shape ToShape(const std::vector<std::size_t>& shape) { return Shape(shape.begin(), shape.end()); }
Shape RowMajorStrides(const Shape& shape);
std::string ShapeString(const Shape& shape);  // for example "{2,3}"

// Computes the strides of a view after a row-major reshape to `shape`. Returns false if there are none.
bool ReshapeView(const View& view, const Shape& shape, View* out);
// Returns a view of the same elements in the same order, with as few dimensions as possible: ones are
// dropped, adjacent dimensions merged. It has at least one dimension.
View Coalesced(const View& view);
bool IsRowMajorContiguous(const View& view);
// Whether `view` is every element of its variable, in order.
bool IsWholeVariable(const View& view, std::int64_t variable_elements);
// Writes the smallest and largest variable element of a view that has elements.
void ElementRange(const View& view, std::int64_t* min, std::int64_t* max);
// Whether no variable element appears twice in `views`, which may be of several variables. Exact.
bool AreDisjoint(const std::vector<View>& views);

// Returns the elements [begin, end) of the row-major order of `shape` as boxes, in order.
std::vector<Box> BoxesOfInterval(const Shape& shape, std::int64_t begin, std::int64_t end);

}  // namespace ipu_model

#endif  // IPU_MODEL_CORE_MAPPING_STRIDES_H_
