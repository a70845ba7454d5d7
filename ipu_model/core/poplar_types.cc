// The numbers of Poplar's types, for users of the model.
#include "ipu_model/Model.hpp"

namespace ipu_model {

DType DTypeOf(const poplar::Type& type) { return type.id(); }
poplar::Type TypeOf(DType type) { return poplar::Type(type); }

}  // namespace ipu_model
