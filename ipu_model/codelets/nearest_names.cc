#include "codelets/nearest_names.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace ipu_model {
namespace {

// Long names differ in their first letters, or are far from each other.
constexpr std::size_t kLongest = 200;

// How many letters must be added, removed or replaced.
std::size_t Distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t corner = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = corner + (a[i] == b[j] ? 0 : 1);
      corner = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, corner + 1});
    }
  }
  return row.back();
}

}  // namespace

std::vector<std::string> NearestNames(const std::string& wanted, std::vector<std::string> names,
                                      std::size_t most) {
  const std::string start = wanted.substr(0, kLongest);
  std::vector<std::pair<std::size_t, std::string>> ranked;
  for (std::string& name : names)
    ranked.emplace_back(Distance(start, name.substr(0, kLongest)), std::move(name));
  std::sort(ranked.begin(), ranked.end());
  std::vector<std::string> nearest;
  for (std::size_t i = 0; i < std::min(most, ranked.size()); ++i)
    nearest.push_back(std::move(ranked[i].second));
  return nearest;
}

}  // namespace ipu_model
