// The one header of stored data: magic, version, length, checksum.
#include <cstring>
#include <stdexcept>

#include "ipu_model/Stored.hpp"

namespace ipu_model {
namespace {

constexpr std::size_t kMagicBytes = 8;
// Version of all data behind the header, of this library and of the plugin. Increase it when the meaning of
// any byte changes: older data is then refused and compiled again.
constexpr std::uint32_t kFormatVersion = 26;

// Little-endian, without padding.
struct Header {
  char magic[kMagicBytes];
  std::uint32_t version;
  std::uint32_t reserved;  // 0
  std::uint64_t content_bytes;
  std::uint64_t checksum;
};
static_assert(sizeof(Header) == 32, "no padding");

// Eight bytes at a time, because programs carry large constants.
std::uint64_t Checksum(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325u ^ bytes.size();
  const auto mix = [&hash](std::uint64_t word) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  };
  std::size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    std::uint64_t word;
    std::memcpy(&word, bytes.data() + i, 8);
    mix(word);
  }
  for (; i < bytes.size(); ++i) mix(static_cast<unsigned char>(bytes[i]));
  return hash;
}

}  // namespace

std::string Seal(std::string_view magic, std::string_view content) {
  if (magic.size() != kMagicBytes) throw std::invalid_argument("a magic number has 8 characters");
  Header header = {};
  std::memcpy(header.magic, magic.data(), kMagicBytes);
  header.version = kFormatVersion;
  header.content_bytes = content.size();
  header.checksum = Checksum(content);
  std::string sealed;
  sealed.reserve(sizeof header + content.size());
  sealed.append(reinterpret_cast<const char*>(&header), sizeof header).append(content);
  return sealed;
}

std::string_view Unseal(std::string_view magic, std::string_view data) {
  Header header;
  if (data.size() < sizeof header) {
    throw std::runtime_error("it has " + std::to_string(data.size()) + " bytes, less than the header");
  }
  std::memcpy(&header, data.data(), sizeof header);
  if (std::string_view(header.magic, kMagicBytes) != magic || header.reserved != 0) {
    throw std::runtime_error("it does not start with the header of an IPU executable");
  }
  if (header.version != kFormatVersion) {
    throw std::runtime_error("it has format version " + std::to_string(header.version) +
                             ", this release reads version " + std::to_string(kFormatVersion));
  }
  const std::string_view content = data.substr(sizeof header);
  if (content.size() != header.content_bytes) {
    throw std::runtime_error("it has " + std::to_string(content.size()) +
                             " bytes of content, its header says " + std::to_string(header.content_bytes));
  }
  if (Checksum(content) != header.checksum) {
    throw std::runtime_error("its checksum is wrong, the content is damaged");
  }
  return content;
}

}  // namespace ipu_model
