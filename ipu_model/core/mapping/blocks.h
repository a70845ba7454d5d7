// What a tensor refers to: strided blocks of elements that together fill an index space, without an
// allocation for each.
#ifndef IPU_MODEL_CORE_MAPPING_BLOCKS_H_
#define IPU_MODEL_CORE_MAPPING_BLOCKS_H_

#include <cstdint>
#include <vector>

#include "core/mapping/box.h"

namespace ipu_model {

// One block: a strided box of a variable at its place in the space. `Number` is std::int64_t, const or not.
template <typename Number>
class BlockAt {
 public:
  BlockAt(Number* numbers, std::size_t rank) : n_(numbers), rank_(rank) {}
  std::size_t rank() const { return rank_; }
  VariableId variable() const { return static_cast<VariableId>(n_[0]); }
  Number& offset() const { return n_[1]; }  // of the first element in the variable
  Number& begin(std::size_t d) const { return n_[2 + d]; }
  Number& extent(std::size_t d) const { return n_[2 + rank_ + d]; }
  Number& stride(std::size_t d) const { return n_[2 + 2 * rank_ + d]; }
  std::int64_t end(std::size_t d) const { return begin(d) + extent(d); }
  Number* extents() const { return n_ + 2 + rank_; }
  Number* strides() const { return n_ + 2 + 2 * rank_; }
  Number* numbers() const { return n_; }
  std::int64_t num_elements() const {
    std::int64_t n = 1;
    for (std::size_t d = 0; d < rank_; ++d) n *= extent(d);
    return n;
  }
  View view(DType type) const {
    return {variable(), type, n_[1], Shape(extents(), extents() + rank_),
            Shape(strides(), strides() + rank_)};
  }
  operator BlockAt<const std::int64_t>() const { return {n_, rank_}; }

 private:
  Number* n_;
  std::size_t rank_;
};
using Block = BlockAt<std::int64_t>;
using ConstBlock = BlockAt<const std::int64_t>;

// Blocks of one rank, in one piece of memory. References to blocks end with the next Append.
class Blocks {
 public:
  Blocks() = default;
  explicit Blocks(std::size_t rank) : rank_(rank) {}
  std::size_t rank() const { return rank_; }
  std::size_t size() const { return numbers_.size() / Width(); }
  bool empty() const { return numbers_.empty(); }
  ConstBlock operator[](std::size_t i) const { return {numbers_.data() + i * Width(), rank_}; }
  Block operator[](std::size_t i) { return {numbers_.data() + i * Width(), rank_}; }
  Block back() { return (*this)[size() - 1]; }
  void Reserve(std::size_t blocks) { numbers_.reserve(blocks * Width()); }
  // A block whose numbers besides these are 0.
  Block Append(VariableId variable, std::int64_t offset);
  // A copy of a block, of this rank, of another list.
  Block Append(const ConstBlock& block);
  void RemoveLast() { numbers_.resize(numbers_.size() - Width()); }
  void Keep(std::size_t blocks) { numbers_.resize(blocks * Width()); }

  // The blocks of the given box of the dimensions from `first` on, which begins at 0 afterwards.
  Blocks Clipped(std::size_t first, const Box& box) const;
  // The last block and the one before become one if together they are one strided box along dimension d.
  void JoinLast(std::size_t d);
  // Finds out whether begins and ends in dimension 0 rise, so that Clipped can look for a block by halving.
  void FindOrder();

 private:
  // The first block that reaches beyond `begin` in dimension 0. They are in order.
  std::size_t FirstBeyond(std::int64_t begin) const;
  std::size_t Width() const { return 2 + 3 * rank_; }
  std::size_t rank_ = 0;
  bool in_order_ = false;
  std::vector<std::int64_t> numbers_;  // of each block: variable, offset, begins, extents, strides
};

}  // namespace ipu_model

#endif  // IPU_MODEL_CORE_MAPPING_BLOCKS_H_
