// A named FIFO between host and device.
#ifndef POPLAR_DATASTREAM_HPP
#define POPLAR_DATASTREAM_HPP

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "poplar/Type.hpp"

namespace poplar {

class DataStream {
 public:
  DataStream() = default;
  DataStream(std::string handle, Type type, std::size_t elements, bool hostToDevice, unsigned index,
             std::uint32_t graph)
      : handle_(std::move(handle)),
        type_(type),
        elements_(elements),
        host_to_device_(hostToDevice),
        index_(index),
        graph_(graph) {}
  const std::string& handle() const { return handle_; }
  Type elementType() const { return type_; }
  std::size_t numElements() const { return elements_; }
  bool hostToDevice() const { return host_to_device_; }
  unsigned index() const { return index_; }  // in the order in which the graph's streams were added
#ifndef POPLAR_API_ONLY
  std::uint32_t graphNumber() const { return graph_; }  // 0: default-constructed
#endif

 private:
  std::string handle_;
  Type type_;
  std::size_t elements_ = 0;
  bool host_to_device_ = true;
  unsigned index_ = 0;
  std::uint32_t graph_ = 0;
};

// Memory outside of the IPU: `repeats` rows of `numElements` elements. Made with Graph::addRemoteBuffer.
class RemoteBuffer {
 public:
  RemoteBuffer() = default;
  RemoteBuffer(std::string handle, Type type, std::size_t numElements, std::size_t repeats, unsigned index,
               std::uint32_t graph)
      : handle_(std::move(handle)),
        type_(type),
        elements_(numElements),
        repeats_(repeats),
        index_(index),
        graph_(graph) {}
  const std::string& handle() const { return handle_; }
  Type elementType() const { return type_; }
  std::size_t numElements() const { return elements_; }
  std::size_t getRepeats() const { return repeats_; }
  unsigned index() const { return index_; }  // in the order in which the graph's buffers were added
#ifndef POPLAR_API_ONLY
  std::uint32_t graphNumber() const { return graph_; }  // 0: default-constructed
#endif

 private:
  std::string handle_;
  Type type_;
  std::size_t elements_ = 0, repeats_ = 0;
  unsigned index_ = 0;
  std::uint32_t graph_ = 0;
};

}  // namespace poplar

#endif  // POPLAR_DATASTREAM_HPP
