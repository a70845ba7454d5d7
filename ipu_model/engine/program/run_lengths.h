// Builds tables of run-length coded rows, in which equal lines share a row.
#ifndef IPU_MODEL_ENGINE_PROGRAM_RUN_LENGTHS_H_
#define IPU_MODEL_ENGINE_PROGRAM_RUN_LENGTHS_H_

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ipu_model/Profile.hpp"

namespace ipu_model {

// Returns values as (value, number of repetitions), flat.
template <typename T>
RunLengths RunLengthsOf(const std::vector<T>& values) {
  RunLengths runs;
  for (const T& value : values) {
    const auto v = static_cast<std::int64_t>(value);
    if (!runs.empty() && runs[runs.size() - 2] == v) {
      ++runs.back();
    } else {
      runs.push_back(v);
      runs.push_back(1);
    }
  }
  return runs;
}

class RunLengthRows {
 public:
  // Returns the number of the row.
  std::uint32_t Add(RunLengths row) {
    std::uint64_t hash = row.size();
    for (const std::int64_t v : row) {
      hash = (hash ^ static_cast<std::uint64_t>(v)) * 0xff51afd7ed558ccdu;
      hash ^= hash >> 32;
    }
    std::vector<std::uint32_t>& known = by_hash_[hash];
    for (const std::uint32_t i : known) {
      if (rows_[i] == row) return i;
    }
    known.push_back(static_cast<std::uint32_t>(rows_.size()));
    num_values_ += row.size();
    rows_.push_back(std::move(row));
    return known.back();
  }
  const RunLengths& operator[](std::size_t row) const { return rows_[row]; }
  std::size_t num_values() const { return num_values_; }
  std::vector<RunLengths> Take() {
    by_hash_.clear();
    return std::exchange(rows_, {});
  }

 private:
  std::vector<RunLengths> rows_;
  std::size_t num_values_ = 0;
  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> by_hash_;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_PROGRAM_RUN_LENGTHS_H_
