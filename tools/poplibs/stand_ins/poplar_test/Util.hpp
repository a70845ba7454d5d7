// Stand-in for the unpublished helpers of Poplar's own tests: host memory for tensors, and conversion of it.
#pragma once

#include <boost/multi_array.hpp>
#include <cstddef>
#include <cstring>
#include <gccs/Algorithm.hpp>
#include <memory>
#include <ostream>
#include <poplar/Engine.hpp>
#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>
#include <poplar/TypeConversion.hpp>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace poplar_test {

// Bytes that a host handle reads or writes.
class HostMemory {
 public:
  HostMemory() = default;
  HostMemory(std::shared_ptr<char> memory, std::size_t bytes) : memory_(std::move(memory)), bytes_(bytes) {}
  char* get() const { return memory_.get(); }
  std::size_t size() const { return bytes_; }

 private:
  std::shared_ptr<char> memory_;
  std::size_t bytes_ = 0;
};

using StreamMap = std::vector<std::pair<std::string, HostMemory>>;

inline HostMemory allocateHostMemoryForTensor(const poplar::Target& target, const poplar::Tensor& t,
                                              unsigned replicationFactor = 1) {
  const std::size_t bytes = target.getTypeSize(t.elementType()) * t.numElements() * replicationFactor;
  return {std::shared_ptr<char>(new char[bytes](), std::default_delete<char[]>()), bytes};
}

// Adds a copy to the tensor to `upload`, and one from it to `download`, if these are not null.
inline HostMemory allocateHostMemoryForTensor(const poplar::Tensor& t, const std::string& name,
                                              poplar::Graph& graph, poplar::program::Sequence* upload,
                                              poplar::program::Sequence* download, StreamMap& map) {
  const HostMemory memory = allocateHostMemoryForTensor(graph.getTarget(), t, graph.getReplicationFactor());
  const poplar::Tensor flat = t.flatten();
  const poplar::Tensor bytes =
      flat.elementType().requiresMetadata() ? flat.reinterpret(poplar::UNSIGNED_CHAR) : flat;
  if (upload != nullptr) {
    const auto stream = graph.addHostToDeviceFIFO(name + "__write", bytes.elementType(), t.numElements());
    upload->add(poplar::program::Copy(stream, bytes));
    map.emplace_back(name + "__write", memory);
  }
  if (download != nullptr) {
    const auto stream = graph.addDeviceToHostFIFO(name + "__read", bytes.elementType(), t.numElements());
    download->add(poplar::program::Copy(bytes, stream));
    map.emplace_back(name + "__read", memory);
  }
  return memory;
}
inline HostMemory allocateHostMemoryForTensor(const poplar::Tensor& t, const std::string& name,
                                              poplar::Graph& graph, poplar::program::Sequence& upload,
                                              poplar::program::Sequence& download, StreamMap& map) {
  return allocateHostMemoryForTensor(t, name, graph, &upload, &download, map);
}
template <typename Upload, typename Download>
HostMemory allocateHostMemoryForTensor(const poplar::Tensor& t, const std::string& name, poplar::Graph& graph,
                                       const Upload& upload, const Download& download, StreamMap& map) {
  const auto pointer = [](const auto& program) -> poplar::program::Sequence* {
    if (!program) return nullptr;
    return const_cast<poplar::program::Sequence*>(&*program);
  };
  return allocateHostMemoryForTensor(t, name, graph, pointer(upload), pointer(download), map);
}

inline void attachStreams(poplar::Engine& engine, const StreamMap& map) {
  for (const auto& [name, memory] : map)
    engine.connectStream(name, memory.get(), memory.get() + memory.size());
}

// Between numbers of the host and elements of a type.
template <typename T>
void copy(const poplar::Target&, const T* src, std::size_t n, const poplar::Type& dstType, void* dst) {
  poplar::convertToDeviceType(dstType, poplar::ArrayRef<T>(src, n), dst);
}
template <typename T>
void copy(const poplar::Target&, const poplar::Type& srcType, const void* src, T* dst, std::size_t n) {
  poplar::convertFromDeviceType(srcType, src, poplar::ArrayRef<T>(dst, n));
}
template <typename T>
void copy(const poplar::Target& target, const std::vector<T>& src, const poplar::Type& dstType, void* dst) {
  if constexpr (std::is_same_v<T, bool>) {
    const std::vector<unsigned char> bytes(src.begin(), src.end());
    copy(target, bytes.data(), bytes.size(), dstType, dst);
  } else {
    copy(target, src.data(), src.size(), dstType, dst);
  }
}
template <typename T>
void copy(const poplar::Target& target, const poplar::Type& srcType, const void* src, std::vector<T>& dst) {
  if constexpr (std::is_same_v<T, bool>) {
    std::vector<unsigned char> bytes(dst.size());
    copy(target, srcType, src, bytes.data(), bytes.size());
    dst.assign(bytes.begin(), bytes.end());
  } else {
    copy(target, srcType, src, dst.data(), dst.size());
  }
}
template <typename T, std::size_t N>
void copy(const poplar::Target& target, const boost::multi_array<T, N>& src, const poplar::Type& dstType,
          void* dst) {
  copy(target, src.data(), src.num_elements(), dstType, dst);
}
template <typename T, std::size_t N>
void copy(const poplar::Target& target, const poplar::Type& srcType, const void* src,
          boost::multi_array<T, N>& dst) {
  copy(target, srcType, src, dst.data(), dst.num_elements());
}
template <typename T, std::size_t N>
void copy(const poplar::Target& target, const boost::multi_array_ref<T, N>& src, const poplar::Type& dstType,
          void* dst) {
  copy(target, src.data(), src.num_elements(), dstType, dst);
}
// QUARTER.
template <typename Range>
void copy(const poplar::Target&, const Range& src, const poplar::Type& dstType,
          const poplar::QuarterMetadata& metadata, void* dst) {
  using T = std::remove_cv_t<std::remove_reference_t<decltype(*src.data())>>;
  std::size_t n = 0;
  if constexpr (std::is_class_v<Range>) n = static_cast<std::size_t>(src.end() - src.begin());
  poplar::convertToDeviceType(dstType, metadata, poplar::ArrayRef<T>(src.data(), n), dst);
}

}  // namespace poplar_test
