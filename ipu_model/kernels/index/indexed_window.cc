// Resolves the dimension numbers of gather and scatter, and computes the offsets of their windows.
#include "kernels/index/indexed_window.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

#include "kernels/copy/slice.h"
#include "kernels/host/isa.h"
#include "kernels/index/window_offsets.h"

namespace ipu_model {
namespace {

bool Contains(const std::vector<std::int64_t>& list, std::int64_t value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

void CheckDims(const std::vector<std::int64_t>& dims, int rank, const char* what) {
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0 || dims[i] >= rank || std::count(dims.begin(), dims.end(), dims[i]) != 1) {
      throw std::invalid_argument(std::string("gather/scatter: ") + what +
                                  " has a dimension out of range or twice: " + std::to_string(dims[i]));
    }
  }
}

}  // namespace

IndexedWindow IndexedWindow::Resolve(const WindowDims& dims, int operand_rank, int indices_rank,
                                     int windows_rank) {
  CheckDims(dims.offset_dims, windows_rank, "offset_dims");
  CheckDims(dims.collapsed_dims, operand_rank, "collapsed_slice_dims");
  CheckDims(dims.operand_batching_dims, operand_rank, "operand_batching_dims");
  CheckDims(dims.indices_batching_dims, indices_rank, "start_indices_batching_dims");
  CheckDims(dims.start_index_map, operand_rank, "start_index_map");
  if (!dims.wraps.empty() && dims.wraps.size() != dims.start_index_map.size()) {
    throw std::invalid_argument("gather/scatter: wraps and start_index_map differ in number");
  }
  IndexedWindow w;
  w.operand_rank = operand_rank;
  w.indices_rank = indices_rank;
  w.windows_rank = windows_rank;
  w.index_vector_dim = static_cast<int>(dims.index_vector_dim);
  w.num_components = static_cast<int>(dims.start_index_map.size());
  if (dims.index_vector_dim < 0 || dims.index_vector_dim > indices_rank) {
    throw std::invalid_argument("gather/scatter: index_vector_dim is out of range");
  }
  if (dims.operand_batching_dims.size() != dims.indices_batching_dims.size()) {
    throw std::invalid_argument("gather/scatter: operand and index batching dimensions differ in number");
  }
  for (int d = 0; d < windows_rank; ++d) {
    if (!Contains(dims.offset_dims, d)) w.batch_dim[w.batch_rank++] = d;
  }
  int batch = 0;
  for (int d = 0; d < indices_rank; ++d) {
    if (d != w.index_vector_dim && batch < kMaxRank) w.index_dim[batch++] = d;
  }
  if (batch != w.batch_rank) {
    throw std::invalid_argument("gather/scatter: the indices have " + std::to_string(batch) +
                                " batch dimensions, the result or updates " + std::to_string(w.batch_rank));
  }
  std::size_t offset = 0;
  for (int d = 0; d < operand_rank; ++d) {
    w.component[d] = w.batching[d] = w.window_dim[d] = -1;
    for (std::size_t k = 0; k < dims.start_index_map.size(); ++k) {
      if (dims.start_index_map[k] != d) continue;
      w.component[d] = static_cast<int>(k);
      w.wrap[d] = dims.wraps.empty() ? 0 : dims.wraps[k];
      if (w.wrap[d] < 0) throw std::invalid_argument("gather/scatter: a wrap is negative");
      w.num_wraps += w.wrap[d] != 0 ? 1 : 0;
    }
    for (std::size_t k = 0; k < dims.operand_batching_dims.size(); ++k) {
      if (dims.operand_batching_dims[k] != d) continue;
      for (int b = 0; b < w.batch_rank; ++b) {
        if (w.index_dim[b] == dims.indices_batching_dims[k]) w.batching[d] = b;
      }
      if (w.batching[d] < 0 || w.component[d] >= 0) {
        throw std::invalid_argument("gather/scatter: a batching dimension is also indexed");
      }
    }
    if (w.batching[d] >= 0 || Contains(dims.collapsed_dims, d)) continue;
    if (offset == dims.offset_dims.size()) {
      throw std::invalid_argument("gather/scatter: fewer offset_dims than window dimensions");
    }
    w.window_dim[d] = static_cast<int>(dims.offset_dims[offset++]);
  }
  if (offset != dims.offset_dims.size()) {
    throw std::invalid_argument("gather/scatter: more offset_dims than window dimensions");
  }
  return w;
}

WindowRows::WindowRows(const IndexedWindow& window, const WindowPlacement& placement,
                       const HostTensor& operand, const HostTensor& indices, const HostTensor& windows)
    : window_(window), placement_(placement), operand_(operand), indices_(indices), windows_(windows) {
  std::int64_t operand_strides[kMaxRank] = {};
  for (int d = 0; d < window.operand_rank; ++d) {
    operand_base_ += (placement.window_begin[d] - placement.operand_begin[d]) * operand.strides[d];
    if (window.batching[d] < 0) continue;
    operand_strides[window.batching[d]] += operand.strides[d];
    operand_base_ += placement.batch_begin[window.batching[d]] * operand.strides[d];
  }
  for (int b = 0; b < window.batch_rank; ++b) {
    const Batch next = {batch_shape_[b] = windows.shape[window.batch_dim[b]], operand_strides[b],
                        batch_windows_[b] = windows.strides[window.batch_dim[b]],
                        batch_indices_[b] = indices.strides[window.index_dim[b]]};
    num_rows_ *= next.count;
    if (next.count == 1) continue;
    Batch* last = batches_ > 0 ? &batch_[batches_ - 1] : nullptr;
    if (last != nullptr && last->operand == next.count * next.operand &&
        last->windows == next.count * next.windows && last->indices == next.count * next.indices) {
      *last = {last->count * next.count, next.operand, next.windows, next.indices};
    } else {
      batch_[batches_++] = next;
    }
  }
  if (window.index_vector_dim < window.indices_rank) {
    component_stride_ = indices.strides[window.index_vector_dim];
  }
}

WindowRows::Position WindowRows::PositionOf(std::int64_t row) const {
  Position position;
  position.operand = operand_base_;
  for (int b = batches_ - 1; b >= 0; --b) {
    const Batch& batch = batch_[b];
    const std::int64_t at = position.at[b] = b > 0 ? row % batch.count : row;
    row /= batch.count;
    position.Move(batch, at);
  }
  return position;
}

void WindowRows::Offsets(std::int64_t begin, std::int64_t n, bool clamp, std::int64_t* operand_offset,
                         std::int64_t* windows_offset) const {
  const auto fill = JAX_IPU_FOR_ISA(FillProgression);
  const auto add = JAX_IPU_FOR_ISA(AddComponent);
  const std::int64_t index_size = static_cast<std::int64_t>(SizeOf(indices_.type));
  const Batch inner = batches_ > 0 ? batch_[batches_ - 1] : Batch{1, 0, 0, 0};
  Position position = PositionOf(begin);
  for (std::int64_t done = 0; done < n;) {
    const std::int64_t first = batches_ > 0 ? position.at[batches_ - 1] : 0,
                       m = std::min(n - done, inner.count - first);
    fill(position.operand, inner.operand, m, operand_offset + done);
    fill(position.windows, inner.windows, m, windows_offset + done);
    for (int d = 0; d < window_.operand_rank; ++d) {
      if (window_.component[d] < 0) continue;
      const char* index =
          indices_.as<char>() + (position.indices + window_.component[d] * component_stride_) * index_size;
      add(indices_.type, index, inner.indices, m, clamp, window_.wrap[d],
          placement_.operand_dims[d] - placement_.slice_sizes[d], operand_.strides[d], operand_offset + done);
    }
    done += m;
    if (batches_ == 0) break;
    position.Move(inner, m);
    position.at[batches_ - 1] += m;
    for (int b = batches_ - 1; b > 0 && position.at[b] == batch_[b].count; --b) {
      position.Move(batch_[b], -batch_[b].count);
      position.Move(batch_[b - 1], 1);
      position.at[b] = 0;
      ++position.at[b - 1];
    }
  }
}

bool WindowRows::HavePlaces() const {
  if (placement_.clipped || WindowLoop().elements != 1) return false;
  if (indices_.type != DType::kS32 && indices_.type != DType::kU32) return false;
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  std::int64_t last = operand_base_;
  if (last < 0) return false;
  for (int d = 0; d < window_.operand_rank; ++d) {
    if (operand_.strides[d] < 0 || window_.wrap[d] > kMost) return false;
    const std::int64_t extent = std::max(placement_.operand_dims[d], operand_.shape[d]);
    if (extent > kMost || operand_.strides[d] > kMost) return false;
    last += extent * operand_.strides[d];
    if (last > kMost) return false;
  }
  constexpr std::int64_t kLeastSegment = 32;
  return batches_ > 0 && batch_[batches_ - 1].windows == 1 && batch_[batches_ - 1].count >= kLeastSegment;
}

std::int64_t WindowRows::Places(std::int64_t begin, std::int64_t n, std::int32_t* place,
                                std::int64_t* windows_offset) const {
  const auto add = JAX_IPU_FOR_ISA(AddPlaces);
  const Batch& inner = batch_[batches_ - 1];
  const Position position = PositionOf(begin);
  n = std::min(n, inner.count - position.at[batches_ - 1]);
  *windows_offset = position.windows;
  for (std::int64_t i = 0; i < n; ++i)
    place[i] = static_cast<std::int32_t>(position.operand + i * inner.operand);
  for (int d = 0; d < window_.operand_rank; ++d) {
    if (window_.component[d] < 0) continue;
    const std::int64_t index = position.indices + window_.component[d] * component_stride_;
    add(indices_.type == DType::kU32, indices_.as<std::int32_t>() + index, inner.indices, n,
        static_cast<std::int32_t>(window_.wrap[d]),
        static_cast<std::int32_t>(placement_.operand_dims[d] - placement_.slice_sizes[d]),
        static_cast<std::int32_t>(operand_.strides[d]), place);
  }
  return n;
}

bool WindowRows::AreElements(Elements* elements) const {
  return WindowLoop().elements == 1 && AreIndexed(elements);
}

bool WindowRows::AreIndexed(Elements* elements) const {
  const Loop loop = WindowLoop();
  return batches_ <= 1 &&
         std::none_of(loop.indexed, loop.indexed + loop.rank, [](bool indexed) { return indexed; }) &&
         FindElements(0, elements);
}

std::int64_t WindowRows::ElementSegment(std::int64_t begin, std::int64_t end, Elements* elements,
                                        std::int64_t* windows_offset) const {
  if (batches_ == 0 || WindowLoop().elements != 1 || !FindElements(begin, elements)) return 0;
  const Position position = PositionOf(begin);
  *windows_offset = position.windows;
  return std::min(end - begin, batch_[batches_ - 1].count - position.at[batches_ - 1]);
}

bool WindowRows::FindElements(std::int64_t begin, Elements* elements) const {
  if (placement_.clipped || !Elements::Supports(indices_.type)) return false;
  const Batch inner = batches_ > 0 ? batch_[batches_ - 1] : Batch{1, 0, 0, 0};
  int indexed = -1;
  for (int d = 0; d < window_.operand_rank; ++d) {
    if (window_.component[d] < 0) continue;
    if (indexed >= 0) return false;
    indexed = d;
  }
  if (indexed < 0 || inner.operand != 0) return false;
  const Position position = PositionOf(begin);
  const std::int64_t index = position.indices + window_.component[indexed] * component_stride_;
  *elements = {indices_.type,
               indices_.as<char>() + index * static_cast<std::int64_t>(SizeOf(indices_.type)),
               inner.indices,
               window_.wrap[indexed],
               placement_.operand_dims[indexed] - placement_.slice_sizes[indexed],
               position.operand,
               operand_.strides[indexed],
               inner.windows};
  return true;
}

bool WindowRows::AreLine(Line* line) const {
  if (placement_.clipped || batches_ > 1) return false;
  const Batch batch = batches_ > 0 ? batch_[0] : Batch{1, 0, 0, 0};
  line->type = indices_.type;
  line->rows = num_rows_;
  line->index_step = batch.indices;
  line->base = operand_base_;
  line->step = batch.operand;
  line->windows_step = batch.windows;
  line->num_components = 0;
  for (int d = 0; d < window_.operand_rank; ++d) {
    if (window_.component[d] < 0) continue;
    line->component[line->num_components++] = {window_.component[d] * component_stride_, window_.wrap[d],
                                               placement_.operand_dims[d] - placement_.slice_sizes[d],
                                               operand_.strides[d]};
  }
  return true;
}

std::int64_t WindowRows::Line::Place(const void* indices, std::int64_t row, bool clamp) const {
  const auto size = static_cast<std::int64_t>(SizeOf(type));
  std::int64_t place = base + row * step;
  for (int c = 0; c < num_components; ++c) {
    const Component& from = component[c];
    const void* const index = static_cast<const char*>(indices) + (from.index + row * index_step) * size;
    std::int64_t start = ReadIndex(type, index);
    if (start < 0) start += from.wrap;
    if (clamp) start = std::clamp<std::int64_t>(start, 0, from.limit);
    if (start < 0 || start > from.limit) return kSkip;
    place += start * from.stride;
  }
  return place;
}

std::int64_t WindowRows::Start(int dim, const char* index, const std::int64_t* batch) const {
  if (window_.batching[dim] >= 0) {
    return placement_.batch_begin[window_.batching[dim]] + batch[window_.batching[dim]];
  }
  if (window_.component[dim] < 0) return 0;
  const std::int64_t size = static_cast<std::int64_t>(SizeOf(indices_.type));
  const std::int64_t v = ReadIndex(indices_.type, index + window_.component[dim] * component_stride_ * size);
  return v < 0 ? v + window_.wrap[dim] : v;
}

bool WindowRows::Clip(std::int64_t row, bool clamp, std::int64_t* operand_begin, std::int64_t* window_begin,
                      std::int64_t* extent, std::int64_t* windows_offset) const {
  std::int64_t batch[kMaxRank] = {}, index_offset = 0;
  *windows_offset = 0;
  for (int b = window_.batch_rank - 1; b >= 0; --b) {
    batch[b] = row % batch_shape_[b];
    row /= batch_shape_[b];
    index_offset += batch[b] * batch_indices_[b];
    *windows_offset += batch[b] * batch_windows_[b];
  }
  const char* index = indices_.as<char>() + index_offset * static_cast<std::int64_t>(SizeOf(indices_.type));
  bool inside = true;
  for (int d = 0; d < window_.operand_rank; ++d) {
    const std::int64_t limit = placement_.operand_dims[d] - placement_.slice_sizes[d];
    std::int64_t start = Start(d, index, batch);
    if (clamp) start = std::clamp<std::int64_t>(start, 0, limit);
    if (start < 0 || start > limit) return false;
    const std::int64_t length = window_.window_dim[d] < 0 ? 1 : windows_.shape[window_.window_dim[d]];
    // Both in coordinates of the whole operand: the window's extent and the operand's part.
    const std::int64_t first = start + placement_.window_begin[d];
    const std::int64_t low = std::max(first, placement_.operand_begin[d]);
    const std::int64_t high = std::min(first + length, placement_.operand_begin[d] + operand_.shape[d]);
    operand_begin[d] = low - placement_.operand_begin[d];
    window_begin[d] = low - first;
    extent[d] = high - low;
    inside = inside && high > low;
  }
  return inside;
}

WindowRows::Loop WindowRows::WindowLoop() const {
  Loop loop;
  for (int d = 0; d < window_.operand_rank; ++d) {
    if (window_.window_dim[d] < 0) continue;
    const std::int64_t extent = windows_.shape[window_.window_dim[d]];
    const std::int64_t operand = operand_.strides[d], windows = windows_.strides[window_.window_dim[d]];
    const bool indexed = window_.component[d] >= 0 && placement_.slice_sizes[d] < placement_.operand_dims[d];
    loop.elements *= extent;
    if (extent == 1) continue;
    const int last = loop.rank - 1;
    if (last >= 0 && loop.operand[last] == operand * extent && loop.windows[last] == windows * extent) {
      loop.shape[last] *= extent;
      loop.indexed[last] = loop.indexed[last] || indexed;
    } else {
      loop.shape[loop.rank] = extent;
      loop.indexed[loop.rank++] = indexed;
    }
    loop.operand[loop.rank - 1] = operand;
    loop.windows[loop.rank - 1] = windows;
  }
  return loop;
}

}  // namespace ipu_model
