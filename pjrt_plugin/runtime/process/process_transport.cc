#include "runtime/process/process_transport.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include "runtime/executable/executable.h"

namespace jax_ipu {
namespace {

// Header of a message: identifies the meeting, so that a mismatch between processes is detected.
struct Header {
  std::array<char, 8> magic = {'j', 'a', 'x', '_', 'i', 'p', 'u', '1'};
  std::uint64_t bytes = 0;
  std::uint32_t channel = 0;
  std::array<char, 44> program = {};  // the start of its name, ends with a zero
};
static_assert(sizeof(Header) == 64, "a message of the wire");

// The first message has a fixed size, so that a receiver knows how much to expect before it checks the
// header. It holds small tensors whole; the rest of larger ones follows in a second message.
constexpr std::size_t kFirstBytes = 1024, kInlineBytes = kFirstBytes - sizeof(Header);
using First = std::array<unsigned char, kFirstBytes>;

Header MakeHeader(const std::string& program, std::uint32_t channel, std::size_t bytes) {
  Header header;
  header.bytes = bytes;
  header.channel = channel;
  program.copy(header.program.data(), header.program.size() - 1);
  return header;
}

void Check(const Header& header, const Header& expected, int process) {
  if (std::memcmp(&header, &expected, sizeof(Header)) == 0) return;
  const auto describe = [](const Header& h) {
    return "'" + std::string(h.program.data()) + "' (collective " + std::to_string(h.channel) + ", " +
           std::to_string(h.bytes) + " bytes)";
  };
  std::string theirs = "sent bytes that are no message of this package version";
  if (header.magic == expected.magic) {
    Header readable = header;
    readable.program.back() = '\0';
    theirs = "is in " + describe(readable);
  }
  throw Error(Code::kFailedPrecondition,
              "This process communicates in program " + describe(expected) + ", but process " +
                  std::to_string(process) + " " + theirs +
                  ". All processes must run the same programs over shared IPUs in the same order, with the "
                  "same arguments' shapes");
}

}  // namespace

RemoteLaunch::RemoteLaunch(std::string program, std::vector<Place> places, int own_process,
                           ProcessTransport transport)
    : program_(std::move(program)),
      places_(std::move(places)),
      own_process_(own_process),
      transport_(std::move(transport)) {}

void RemoteLaunch::Carry(std::uint32_t channel, std::vector<Transfer>& transfers) {
  struct Firsts {
    First out = {}, in = {};
  };
  std::vector<Firsts> firsts(transfers.size());
  std::vector<ProcessMessage> messages, rest;
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    Transfer& transfer = transfers[i];
    ProcessMessage message;
    message.process = ProcessOf(transfer.there);
    // The tag names the two devices: their meetings have the same order on both sides.
    const unsigned here = places_[transfer.here].device, there = places_[transfer.there].device;
    message.send_tag = here << 12 | there;
    message.receive_tag = there << 12 | here;
    const Header header = MakeHeader(program_, channel, transfer.out.size());
    std::memcpy(firsts[i].out.data(), &header, sizeof(header));
    const std::size_t out = std::min(kInlineBytes, transfer.out.size());
    const std::size_t in = std::min(kInlineBytes, transfer.in.size());
    std::copy_n(transfer.out.data(), out, firsts[i].out.data() + sizeof(header));
    message.out = firsts[i].out.data();
    message.in = firsts[i].in.data();
    message.out_bytes = message.in_bytes = kFirstBytes;
    messages.push_back(message);
    message.out = transfer.out.data() + out;
    message.in = transfer.in.data() + in;
    message.out_bytes = transfer.out.size() - out;
    message.in_bytes = transfer.in.size() - in;
    if (message.out_bytes + message.in_bytes > 0) rest.push_back(message);
  }
  transport_.carry(messages);
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    Transfer& transfer = transfers[i];
    Header header;
    std::memcpy(&header, firsts[i].in.data(), sizeof(header));
    Check(header, MakeHeader(program_, channel, transfer.in.size()), messages[i].process);
    std::copy_n(firsts[i].in.data() + sizeof(header), std::min(kInlineBytes, transfer.in.size()),
                transfer.in.data());
  }
  if (!rest.empty()) transport_.carry(rest);
}

void RemoteLaunch::Fail(const std::string& reason) { transport_.fail("in '" + program_ + "': " + reason); }

}  // namespace jax_ipu
