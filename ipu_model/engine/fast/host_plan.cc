#include "engine/fast/host_plan.h"

#include "core/mapping/strides.h"

namespace ipu_model {

View HostLocation::Placed(const View& view) const {
  if (part.has_value() && part->shape == view.shape) return *part;
  View placed = view;
  if (in_view_order) {
    placed.offset = 0;
    placed.strides = RowMajorStrides(view.shape);
  }
  return placed;
}

}  // namespace ipu_model
