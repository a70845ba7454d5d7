// Compares our cycles of a vertex with PopLibs' estimator over a grid of sizes.
#ifndef IPU_MODEL_TESTING_VERTEX_COMPARISON_H_
#define IPU_MODEL_TESTING_VERTEX_COMPARISON_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <utility>

#include "check.h"

namespace ipu_model {

// With the environment variable MODEL_ACCURACY_TABLE, prints a row of the table in docs/model_accuracy.md.
class Comparison {
 public:
  // tolerance: the largest relative difference.
  Comparison(std::string vertex, double tolerance) : vertex_(std::move(vertex)), tolerance_(tolerance) {}
  ~Comparison() {
    CHECK(points_ > 0);
    if (std::getenv("MODEL_ACCURACY_TABLE") != nullptr) {
      std::cout << "| " << vertex_ << " | " << points_ << " | " << least_ << " to " << most_ << " | "
                << 100 * worst_ << " % |\n";
    }
  }
  Comparison(const Comparison&) = delete;
  Comparison& operator=(const Comparison&) = delete;

  void Add(std::uint64_t ours, double theirs) {
    const double error = std::abs(static_cast<double>(ours) / theirs - 1);
    CHECK(error <= tolerance_);
    worst_ = std::max(worst_, error);
    least_ = points_ == 0 ? ours : std::min(least_, ours);
    most_ = std::max(most_, ours);
    ++points_;
  }

 private:
  std::string vertex_;
  double tolerance_;
  int points_ = 0;
  double worst_ = 0;
  std::uint64_t least_ = 0, most_ = 0;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_TESTING_VERTEX_COMPARISON_H_
