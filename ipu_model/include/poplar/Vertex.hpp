// The base classes and field types of vertices, for codelets that run on the host. A codelet is compiled by
// the host's compiler with __IPU__ undefined (Graph::addCodelets), so that its portable C++ body is used. An
// edge is a pointer, a number of elements and a pointer to metadata in every layout. Source: Graphcore's
// Poplar and PopLibs API reference, chapter "Device code".
#ifndef POPLAR_VERTEX_HPP
#define POPLAR_VERTEX_HPP

#ifdef __POPC__
// Without libstdc++'s special functions of C++17, which popc's library lacks, small codelets compile faster.
#include <cstddef>
#undef _GLIBCXX_USE_STD_SPEC_FUNCS
#endif

// Not <cstdlib>: as on the device, abs outside of std is for integers of every size, not for int only.
#include <stdlib.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

// Not ipudef.h: where __IPU__ is undefined, codelets declare vector types of those names themselves.
#include "poplar/Alignment.hpp"
#include "poplar/QuarterFloat.hpp"
#include "poplar/VectorLayout.hpp"

// A builtin of the device's compiler, which needs no header.
#if !defined(__clang__) && !defined(__builtin_assume)
#define __builtin_assume(condition)            \
  do {                                         \
    if (!(condition)) __builtin_unreachable(); \
  } while (false)
#endif

namespace poplar {

// One worker runs compute().
class Vertex {};

// compute(workerId) runs once for each of the six workers of a tile.
class MultiVertex {
 public:
  static constexpr unsigned numWorkers() { return 6; }
};

// The supervisor of a tile runs compute().
class SupervisorVertex {};

// A SupervisorVertex or a MultiVertex if the condition holds, otherwise a Vertex.
template <bool Condition>
class SupervisorVertexIf : public Vertex {};
template <>
class SupervisorVertexIf<true> : public SupervisorVertex {};
template <bool Condition>
class MultiVertexIf : public Vertex {};
template <>
class MultiVertexIf<true> : public MultiVertex {};

// ---- Elements in memory, which fields refer to.

template <typename T>
class ElementSpan {
 public:
  using value_type = typename std::remove_const<T>::type;
  T& operator[](std::size_t i) const { return data_[i]; }
  T* begin() const { return data_; }
  T* end() const { return data_ + size_; }
  T* data() const { return data_; }
  unsigned size() const { return static_cast<unsigned>(size_); }
  bool empty() const { return size_ == 0; }
  T& front() const { return data_[0]; }
  T& back() const { return data_[size_ - 1]; }
  // Of elements of `quarter`; null for others.
  const MetadataType* getMetadata() const { return metadata_; }

 private:
  T* data_;
  std::size_t size_;
  const MetadataType* metadata_;
};

// A field that is no edge: its elements belong to the state of the vertex (Graph::setInitialValue and
// setFieldSize). As the argument of Input, Output or InOut: several elements. Of other fields
// (Vector<Input<...>>): several edges.
template <typename T, VectorLayout L = VectorLayout::SPAN, unsigned MinAlign = 0, bool Interleaved = false>
class Vector : public ElementSpan<T> {
 public:
  // The device knows a size in the layouts SPAN and SHORT_SPAN only.
  unsigned size() const {
    static_assert(L == VectorLayout::SPAN || L == VectorLayout::SHORT_SPAN,
                  "a Vector with this VectorLayout has no size");
    return ElementSpan<T>::size();
  }
  T* end() const { return this->begin() + size(); }
};

// Several edges of several elements, as the argument of Input, Output or InOut, or with edges as elements.
template <typename T, VectorListLayout L = VectorListLayout::DELTANELEMENTS, unsigned MinAlign = 0,
          bool Interleaved = false>
class VectorList : public ElementSpan<T> {};

// ---- Edges.

namespace internal {

template <typename T>
class ScalarEdge {
 public:
  T& operator*() const { return *data_; }
  T* operator->() const { return data_; }
  T* operator&() const { return data_; }
  operator T&() const { return *data_; }
  // Of an element of `quarter`; null for others.
  const MetadataType* getMetadata() const { return metadata_; }

 protected:
  T* data_;
  std::size_t size_;
  const MetadataType* metadata_;
};

// An edge of several elements behaves as the vector itself, and as a pointer to it.
template <typename T, VectorLayout L>
class VectorEdge : public Vector<T, L> {
 public:
  const VectorEdge& operator*() const { return *this; }
  const VectorEdge* operator->() const { return this; }
};

template <typename Span>
class ListEdge : public ElementSpan<Span> {
 public:
  const ListEdge& operator*() const { return *this; }
  const ListEdge* operator->() const { return this; }
};

// Elements that are read, with the spans of constants of `Span`. As with the SDK, they are no constants of
// the compiler's unless the field is one: codelets cast &in[0] to pointers to vectors of elements without
// const. Vertices that run on copies (tiles mode, JAX_IPU_CODELETS=isolated) are ended when they write there.
template <typename T, typename Span>
class ReadSpan : public Span {
 public:
  using Span::begin, Span::data, Span::end, Span::front, Span::back, Span::operator[];
  T& operator[](std::size_t i) { return const_cast<T&>(Span::operator[](i)); }
  T* begin() { return const_cast<T*>(Span::begin()); }
  T* end() { return const_cast<T*>(Span::end()); }
  T* data() { return const_cast<T*>(Span::data()); }
  T& front() { return const_cast<T&>(Span::front()); }
  T& back() { return const_cast<T&>(Span::back()); }
};

template <typename T, VectorLayout L>
class VectorInput : public ReadSpan<T, Vector<const T, L>> {
 public:
  VectorInput& operator*() { return *this; }
  VectorInput* operator->() { return this; }
  const VectorInput& operator*() const { return *this; }
  const VectorInput* operator->() const { return this; }
};

}  // namespace internal

template <typename T>
class Input : public internal::ScalarEdge<const T> {};

template <typename T>
class Output : public internal::ScalarEdge<T> {
 public:
  const Output& operator=(const T& value) const {
    *this->data_ = value;
    return *this;
  }
};

template <typename T>
class InOut : public internal::ScalarEdge<T> {
 public:
  const InOut& operator=(const T& value) const {
    *this->data_ = value;
    return *this;
  }
};

template <typename T, VectorLayout L, unsigned A, bool I>
class Input<Vector<T, L, A, I>> : public internal::VectorInput<T, L> {};
template <typename T, VectorLayout L, unsigned A, bool I>
class Output<Vector<T, L, A, I>> : public internal::VectorEdge<T, L> {};
template <typename T, VectorLayout L, unsigned A, bool I>
class InOut<Vector<T, L, A, I>> : public internal::VectorEdge<T, L> {};

template <typename T, VectorListLayout L, unsigned A, bool I>
class Input<VectorList<T, L, A, I>> : public internal::ListEdge<internal::ReadSpan<T, ElementSpan<const T>>> {
};
template <typename T, VectorListLayout L, unsigned A, bool I>
class Output<VectorList<T, L, A, I>> : public internal::ListEdge<ElementSpan<T>> {};
template <typename T, VectorListLayout L, unsigned A, bool I>
class InOut<VectorList<T, L, A, I>> : public internal::ListEdge<ElementSpan<T>> {};

}  // namespace poplar

#endif  // POPLAR_VERTEX_HPP
