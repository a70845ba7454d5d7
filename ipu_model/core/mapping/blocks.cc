#include "core/mapping/blocks.h"

#include <algorithm>
#include <utility>

namespace ipu_model {

Block Blocks::Append(VariableId variable, std::int64_t offset) {
  in_order_ = false;
  numbers_.resize(numbers_.size() + Width());
  const Block made = back();
  made.numbers()[0] = variable;
  made.offset() = offset;
  return made;
}

Block Blocks::Append(const ConstBlock& block) {
  in_order_ = false;
  numbers_.insert(numbers_.end(), block.numbers(), block.numbers() + Width());
  return back();
}

void Blocks::FindOrder() {
  in_order_ = rank_ > 0;
  for (std::size_t i = 1; i < size() && in_order_; ++i) {
    const ConstBlock last = std::as_const(*this)[i - 1], next = std::as_const(*this)[i];
    in_order_ = next.begin(0) >= last.begin(0) && next.end(0) >= last.end(0);
  }
}

std::size_t Blocks::FirstBeyond(std::int64_t begin) const {
  std::size_t low = 0, high = size();
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if ((*this)[middle].end(0) > begin) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

Blocks Blocks::Clipped(std::size_t first, const Box& box) const {
  Blocks result(rank_);
  const std::size_t count = box.begin.size();
  const bool in_order = in_order_ && first == 0 && count > 0;
  for (std::size_t i = in_order ? FirstBeyond(box.begin[0]) : 0; i < size(); ++i) {
    const ConstBlock block = (*this)[i];
    if (in_order && block.begin(0) >= box.end[0]) break;
    bool inside = true;
    for (std::size_t k = 0; k < count && inside; ++k) {
      inside = block.begin(first + k) < box.end[k] && block.end(first + k) > box.begin[k];
    }
    if (!inside) continue;
    const Block clipped = result.Append(block);
    for (std::size_t k = 0; k < count; ++k) {
      const std::size_t d = first + k;
      const std::int64_t begin = std::max(box.begin[k], block.begin(d));
      const std::int64_t end = std::min(box.end[k], block.end(d));
      clipped.offset() += (begin - block.begin(d)) * block.stride(d);
      clipped.begin(d) = begin - box.begin[k];
      clipped.extent(d) = end - begin;
    }
  }
  return result;
}

void Blocks::JoinLast(std::size_t d) {
  if (size() < 2) return;
  const Block a = (*this)[size() - 2], b = back();
  if (a.variable() != b.variable() || a.end(d) != b.begin(d)) return;
  for (std::size_t k = 0; k < rank_; ++k) {
    if (k == d) continue;
    if (a.begin(k) != b.begin(k) || a.extent(k) != b.extent(k)) return;
    if (a.extent(k) > 1 && a.stride(k) != b.stride(k)) return;
  }
  // A dimension of one element may have any stride.
  std::int64_t step = a.stride(d);
  if (a.extent(d) == 1 && b.extent(d) == 1) step = b.offset() - a.offset();
  if (a.extent(d) == 1 && b.extent(d) > 1) step = b.stride(d);
  if (b.extent(d) > 1 && b.stride(d) != step) return;
  if (b.offset() != a.offset() + step * a.extent(d)) return;
  a.stride(d) = step;
  a.extent(d) += b.extent(d);
  RemoveLast();
}

}  // namespace ipu_model
