// A reader for the protobuf wire format.
#ifndef JAX_IPU_PJRT_ABI_PROTO_MESSAGE_H_
#define JAX_IPU_PJRT_ABI_PROTO_MESSAGE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/executable/executable.h"

namespace jax_ipu::pjrt {

// The fields of one message, in their order.
class ProtoMessage {
 public:
  // `what` ends the message of the Error for data that is no protobuf message: "The ... ".
  ProtoMessage(std::string_view data, const char* what) : data_(data), what_(what) {}

  // Moves to the next field; false at the end.
  bool Next() {
    if (data_.empty()) return false;
    const std::uint64_t tag = TakeVarint();
    field_ = tag >> 3;
    switch (static_cast<unsigned>(tag & 7)) {
      case kVarint:
        value_ = TakeVarint();
        bytes_ = {};
        break;
      case kBytes:
        bytes_ = Take(TakeVarint());
        break;
      case kFixed64:
        Take(8);
        break;
      case kFixed32:
        Take(4);
        break;
      default:
        Fail();
    }
    return true;
  }
  std::uint64_t field() const { return field_; }
  int integer() const { return static_cast<int>(static_cast<std::int64_t>(value_)); }
  std::string_view bytes() const { return bytes_; }

  std::uint64_t TakeVarint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(Take(1)[0]);
      value |= std::uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
    Fail();
  }
  bool empty() const { return data_.empty(); }

 private:
  std::string_view Take(std::uint64_t n) {
    if (n > data_.size()) Fail();
    const std::string_view taken = data_.substr(0, static_cast<std::size_t>(n));
    data_.remove_prefix(static_cast<std::size_t>(n));
    return taken;
  }
  [[noreturn]] void Fail() const { throw Error(Code::kInvalidArgument, std::string("The ") + what_); }

  static constexpr unsigned kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5;

  std::string_view data_, bytes_;
  const char* const what_;
  std::uint64_t field_ = 0, value_ = 0;
};

}  // namespace jax_ipu::pjrt

#endif  // JAX_IPU_PJRT_ABI_PROTO_MESSAGE_H_
