// One round of a merge sort whose comparisons are evaluated many at a time.
#ifndef IPU_MODEL_KERNELS_SORT_MERGER_H_
#define IPU_MODEL_KERNELS_SORT_MERGER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ipu_model {

// Comparisons per evaluation of the general comparator.
inline constexpr std::int64_t kMergeLanes = 1024;

// What is compared at once: whether element x[k] goes before element y[k]. Elements are numbered over all
// rows.
struct Comparisons {
  std::int64_t x[kMergeLanes], y[kMergeLanes];
  const std::uint8_t* goes_first;
};

// Segments of merges, which advance in lockstep, one element each, so that their comparisons are evaluated
// together. compare(count) answers the first `count` of `compared`.
template <typename Compare>
class Merger {
 public:
  // Merges rows of n elements from `order` to `other`.
  Merger(std::int64_t n, const std::uint32_t* order, std::uint32_t* other, Comparisons& compared,
         Compare& compare)
      : n_(n), order_(order), other_(other), compared_(compared), compare_(compare) {
    lanes_.reserve(kMergeLanes);
    asking_.reserve(kMergeLanes);
  }

  // Adds the elements [to, stop) of the merge of the sorted parts [left, middle) and [middle, end) of a row.
  void Add(std::int64_t row, std::int64_t left, std::int64_t middle, std::int64_t end, std::int64_t to,
           std::int64_t stop) {
    const std::int64_t diagonal = to - left;
    lanes_.push_back({row, left, middle, end, std::max<std::int64_t>(0, diagonal - (end - middle)),
                      std::min(diagonal, middle - left), 0, 0, to, stop});
    if (static_cast<std::int64_t>(lanes_.size()) == kMergeLanes) Flush();
  }

  // Merges what was added.
  void Flush() {
    FindStarts();
    Merge();
    lanes_.clear();
  }

 private:
  struct Lane {
    std::int64_t row, left, middle, end;
    std::int64_t low, high;  // bounds of the binary search for the number of elements from the left part
    std::int64_t i, j, to, stop;
  };

  std::int64_t Element(const Lane& lane, std::int64_t at) const {
    return lane.row * n_ + order_[lane.row * n_ + at];
  }

  // Finds the start of each segment on the diagonal `to` of its merge.
  void FindStarts() {
    for (bool searching = true; searching;) {
      asking_.clear();
      for (std::size_t l = 0; l < lanes_.size(); ++l) {
        Lane& lane = lanes_[l];
        if (lane.low >= lane.high) continue;
        const std::int64_t taken = (lane.low + lane.high) / 2, diagonal = lane.to - lane.left;
        compared_.x[asking_.size()] = Element(lane, lane.middle + diagonal - 1 - taken);
        compared_.y[asking_.size()] = Element(lane, lane.left + taken);
        asking_.push_back(l);
      }
      searching = !asking_.empty();
      if (searching) compare_(static_cast<std::int64_t>(asking_.size()));
      for (std::size_t k = 0; k < asking_.size(); ++k) {
        Lane& lane = lanes_[asking_[k]];
        const std::int64_t taken = (lane.low + lane.high) / 2;
        (compared_.goes_first[k] ? lane.high : lane.low) = compared_.goes_first[k] ? taken : taken + 1;
      }
    }
    for (Lane& lane : lanes_) {
      lane.i = lane.left + lane.low;
      lane.j = lane.middle + (lane.to - lane.left) - lane.low;
    }
  }

  void Merge() {
    for (bool merging = true; merging;) {
      asking_.clear();
      merging = false;
      for (std::size_t l = 0; l < lanes_.size(); ++l) {
        Lane& lane = lanes_[l];
        if (lane.to == lane.stop) continue;
        merging = true;
        if (lane.i == lane.middle || lane.j == lane.end) {
          const std::int64_t from = lane.i == lane.middle ? lane.j++ : lane.i++;
          other_[lane.row * n_ + lane.to++] = order_[lane.row * n_ + from];
          continue;
        }
        compared_.x[asking_.size()] = Element(lane, lane.j);
        compared_.y[asking_.size()] = Element(lane, lane.i);
        asking_.push_back(l);
      }
      if (!asking_.empty()) compare_(static_cast<std::int64_t>(asking_.size()));
      for (std::size_t k = 0; k < asking_.size(); ++k) {
        Lane& lane = lanes_[asking_[k]];
        const std::int64_t from = compared_.goes_first[k] ? lane.j++ : lane.i++;
        other_[lane.row * n_ + lane.to++] = order_[lane.row * n_ + from];
      }
    }
  }

  const std::int64_t n_;
  const std::uint32_t* const order_;
  std::uint32_t* const other_;
  Comparisons& compared_;
  Compare& compare_;
  std::vector<Lane> lanes_;
  std::vector<std::size_t> asking_;  // the lanes that compare
};

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_SORT_MERGER_H_
