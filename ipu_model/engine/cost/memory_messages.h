// What a user reads when a program does not fit on its tiles.
#ifndef IPU_MODEL_ENGINE_COST_MEMORY_MESSAGES_H_
#define IPU_MODEL_ENGINE_COST_MEMORY_MESSAGES_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/operation/operation.h"
#include "ipu_model/Model.hpp"

namespace ipu_model {

// `over`: the number of tiles that need too much. `operation`: what runs at the peak of the fullest tile, or
// null.
std::string OutOfMemoryMessage(const Report& report, std::uint64_t over, const Operation* operation);

// `over`: the number of tiles with more code than `limit` bytes. `operations`: how many the program has.
std::string OutOfCodeMessage(const Report& report, std::uint64_t over, std::uint64_t limit,
                             std::size_t operations);

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_COST_MEMORY_MESSAGES_H_
