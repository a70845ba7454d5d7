// Which names somebody may have meant.
#ifndef IPU_MODEL_CODELETS_NEAREST_NAMES_H_
#define IPU_MODEL_CODELETS_NEAREST_NAMES_H_

#include <cstddef>
#include <string>
#include <vector>

namespace ipu_model {

// At most `most` of the names, those that take the fewest changes of letters to become `wanted` first, then
// in alphabetical order.
std::vector<std::string> NearestNames(const std::string& wanted, std::vector<std::string> names,
                                      std::size_t most);

}  // namespace ipu_model

#endif  // IPU_MODEL_CODELETS_NEAREST_NAMES_H_
