// The elements of a tensor as blocks over an index space, and how both change when the tensor is reshaped.
#ifndef IPU_MODEL_CORE_MAPPING_TILING_H_
#define IPU_MODEL_CORE_MAPPING_TILING_H_

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/mapping/blocks.h"
#include "core/mapping/box.h"

namespace ipu_model {

struct Stretch;

// What was found out about a tiling that no longer changes. A copy, which may change, has nothing of it.
class StretchCache {
 public:
  StretchCache() = default;
  StretchCache(const StretchCache&) {}
  StretchCache& operator=(const StretchCache&) {
    stretches_ = {};
    return *this;
  }
  // Its stretches, with unit steps or with any. Null if there are none. Several threads may call both at
  // once.
  std::shared_ptr<const std::vector<Stretch>> Get(bool unit_steps) const {
    return std::atomic_load(&stretches_[unit_steps]);
  }
  void Set(bool unit_steps, std::shared_ptr<const std::vector<Stretch>> stretches) const {
    std::atomic_store(&stretches_[unit_steps], std::move(stretches));
  }

 private:
  mutable std::array<std::shared_ptr<const std::vector<Stretch>>, 2> stretches_;
};

// Blocks that fill `space`, an index space. The elements are in its row-major order. There is at least one
// block.
struct Tiling {
  Shape space;
  Blocks blocks;
  StretchCache cache = {};
};

// An index space refines a shape if each dimension of the shape is a group of adjacent dimensions of the
// space. Then operations on a dimension are operations on its group, and a view that no strides over the
// shape express, such as a transpose that is flattened, stays one block.
//
// Writes the space's dimension at which each dimension of the shape begins, and the end. False: no
// refinement.
bool GroupsOf(const Shape& shape, const Shape& space, std::vector<std::size_t>* first);

// Makes the space a refinement of `shape`, which has as many elements. With `exactly_as_many`: returns false
// if that takes more blocks than there are.
bool Refine(const Shape& shape, bool exactly_as_many, Tiling* tiling);
// Makes the space `shape` if the two differ only in dimensions of one element; otherwise returns false.
bool ChangeOnes(const Shape& shape, Tiling* tiling);
// Merges the dimensions of each group as far as the blocks stay strided boxes. The space refines the shape.
void MergeGroups(const Shape& shape, Tiling* tiling);
// Elements [begin, end) of the dimensions [first, last) of the space, in as few dimensions as their blocks
// allow.
void SelectInGroup(std::size_t first, std::size_t last, std::int64_t begin, std::int64_t end, Tiling* tiling);
// Makes one dimension of the dimensions [first, last), in as many blocks as that needs.
void Collapse(std::size_t first, std::size_t last, Tiling* tiling);
// Makes the space the shape, which it refines.
void CollapseGroups(const Shape& shape, Tiling* tiling);
// The parts, of the given shapes, one after another along a dimension of the shapes. None is empty.
Tiling Concatenate(const std::vector<const Tiling*>& parts, const std::vector<Shape>& shapes,
                   std::size_t dim);
// Gives two tilings with as many elements the same space.
void Unify(Tiling* a, Tiling* b);

}  // namespace ipu_model

#endif  // IPU_MODEL_CORE_MAPPING_TILING_H_
