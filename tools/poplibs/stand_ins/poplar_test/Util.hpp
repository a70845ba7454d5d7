// Stand-in for the unpublished helpers of Poplar's own tests: host memory for tensors, and conversion of it.
#pragma once

#include <boost/multi_array.hpp>
#include <boost/none.hpp>
#include <boost/optional.hpp>
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

// Bytes that a host handle reads or writes; those who allocated them own them.
class HostMemory {
 public:
  HostMemory() = default;
  HostMemory(char* memory, std::size_t bytes) : memory_(memory), bytes_(bytes) {}
  char* get() const { return memory_; }
  std::size_t size() const { return bytes_; }

 private:
  char* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

using StreamMap = std::vector<std::pair<std::string, HostMemory>>;

inline std::size_t hostBytes(const poplar::Target& target, const poplar::Tensor& t,
                             unsigned replicationFactor) {
  return target.getTypeSize(t.elementType()) * t.numElements() * replicationFactor;
}
inline std::unique_ptr<char[]> allocateHostMemoryForTensor(const poplar::Target& target,
                                                           const poplar::Tensor& t,
                                                           unsigned replicationFactor = 1) {
  return std::make_unique<char[]>(hostBytes(target, t, replicationFactor));
}

// The same; writes how many bytes it is.
inline std::unique_ptr<char[]> allocateHostMemoryForTensor(const poplar::Target& target,
                                                           const poplar::Tensor& t,
                                                           unsigned replicationFactor, std::size_t& bytes) {
  bytes = hostBytes(target, t, replicationFactor);
  return allocateHostMemoryForTensor(target, t, replicationFactor);
}

// A program to add to, or none.
class OptionalProgram {
 public:
  OptionalProgram(poplar::program::Sequence& program) : program_(&program) {}
  OptionalProgram(boost::none_t) {}
  OptionalProgram(const boost::optional<poplar::program::Sequence&>& program) : program_(program.get_ptr()) {}
  poplar::program::Sequence* get() const { return program_; }

 private:
  poplar::program::Sequence* program_ = nullptr;
};

// Adds a copy to the tensor to `upload`, and one from it to `download`, if these are there.
inline std::unique_ptr<char[]> allocateHostMemoryForTensor(const poplar::Tensor& t, const std::string& name,
                                                           poplar::Graph& graph, OptionalProgram upload,
                                                           OptionalProgram download, StreamMap& map) {
  auto owner = allocateHostMemoryForTensor(graph.getTarget(), t, graph.getReplicationFactor());
  const HostMemory memory(owner.get(), hostBytes(graph.getTarget(), t, graph.getReplicationFactor()));
  const poplar::Tensor flat = t.flatten();
  const poplar::Tensor bytes =
      flat.elementType().requiresMetadata() ? flat.reinterpret(poplar::UNSIGNED_CHAR) : flat;
  if (upload.get() != nullptr) {
    const auto stream = graph.addHostToDeviceFIFO(name + "__write", bytes.elementType(), t.numElements());
    upload.get()->add(poplar::program::Copy(stream, bytes));
    map.emplace_back(name + "__write", memory);
  }
  if (download.get() != nullptr) {
    const auto stream = graph.addDeviceToHostFIFO(name + "__read", bytes.elementType(), t.numElements());
    download.get()->add(poplar::program::Copy(bytes, stream));
    map.emplace_back(name + "__read", memory);
  }
  return owner;
}

inline void attachStreams(poplar::Engine& engine, const StreamMap& map) {
  for (const auto& [name, memory] : map)
    engine.connectStream(name, memory.get(), memory.get() + memory.size());
}

template <typename T>
std::size_t sizeOf(const std::vector<T>& range) {
  return range.size();
}
template <typename T, std::size_t N>
std::size_t sizeOf(const boost::multi_array<T, N>& range) {
  return range.num_elements();
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
// Several arrays.
template <typename T, std::size_t N>
void copy(const poplar::Target& target, const poplar::Type& dstType,
          const std::vector<boost::multi_array<T, N>>& src, std::vector<std::unique_ptr<char[]>>& dst) {
  for (std::size_t i = 0; i < src.size(); ++i) copy(target, src[i], dstType, dst[i].get());
}
template <typename T, std::size_t N>
void copy(const poplar::Target& target, const poplar::Type& srcType,
          const std::vector<std::unique_ptr<char[]>>& src, std::vector<boost::multi_array<T, N>>& dst) {
  for (std::size_t i = 0; i < dst.size(); ++i) copy(target, srcType, src[i].get(), dst[i]);
}
// The same with metadata for a QUARTER; other types have none.
template <typename T>
void copy(const poplar::Target& target, const T* src, std::size_t n, const poplar::Type& dstType,
          const poplar::QuarterMetadata& metadata, void* dst) {
  if (dstType == poplar::QUARTER) {
    poplar::convertToDeviceType(dstType, metadata, poplar::ArrayRef<T>(src, n), dst);
  } else {
    copy(target, src, n, dstType, dst);
  }
}
template <typename T>
void copy(const poplar::Target& target, const poplar::Type& srcType, const poplar::QuarterMetadata& metadata,
          const void* src, T* dst, std::size_t n) {
  if (srcType == poplar::QUARTER) {
    poplar::convertFromDeviceType(srcType, metadata, src, poplar::ArrayRef<T>(dst, n));
  } else {
    copy(target, srcType, src, dst, n);
  }
}
template <typename Range>
void copy(const poplar::Target& target, const Range& src, const poplar::Type& dstType,
          const poplar::QuarterMetadata& metadata, void* dst) {
  copy(target, src.data(), sizeOf(src), dstType, metadata, dst);
}
template <typename Range>
void copy(const poplar::Target& target, const poplar::Type& srcType, const poplar::QuarterMetadata& metadata,
          const void* src, Range& dst) {
  copy(target, srcType, metadata, src, dst.data(), sizeOf(dst));
}

}  // namespace poplar_test
