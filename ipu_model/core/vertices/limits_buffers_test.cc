// A limit is 0 or what the compiler may set: operations divide by parts of it.
#include "core/vertices/limits_buffers.h"

#include "check.h"

namespace ipu_model {
namespace {

std::int64_t StoredLimit(std::int64_t limit) {
  Writer writer;
  writer.Write(limit);
  Reader reader(writer.data());
  return LimitsBuffers::ReadLimit(reader);
}

TEST(StoredLimits) {
  for (const std::int64_t limit : {0, 512, 1 << 20}) CHECK_EQ(StoredLimit(limit), limit);
  for (const std::int64_t limit : {-1, 1, 511}) CHECK_THROWS(SerialiseError, StoredLimit(limit));
}

}  // namespace
}  // namespace ipu_model
