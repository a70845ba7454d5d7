// Resolves the dimension numbers of gather and scatter, and computes the offsets of their windows.
#include "kernels/index/indexed_window.h"

#include <algorithm>
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
  for (int b = 0; b < window.batch_rank; ++b) {
    batch_shape_[b] = windows.shape[window.batch_dim[b]];
    batch_windows_[b] = windows.strides[window.batch_dim[b]];
    batch_indices_[b] = indices.strides[window.index_dim[b]];
    num_rows_ *= batch_shape_[b];
    if (batch_shape_[b] > 1) inner_ = b;
  }
  if (window.index_vector_dim < window.indices_rank) {
    component_stride_ = indices.strides[window.index_vector_dim];
  }
}

void WindowRows::Offsets(std::int64_t begin, std::int64_t n, bool clamp, std::int64_t* operand_offset,
                         std::int64_t* windows_offset) const {
  const auto fill = HasAvx512() ? avx512::FillProgression : avx2::FillProgression;
  const auto add = HasAvx512() ? avx512::AddComponent : avx2::AddComponent;
  const std::int64_t index_size = static_cast<std::int64_t>(SizeOf(indices_.type));
  std::int64_t operand_batch_stride[kMaxRank] = {};
  std::int64_t constant = 0;
  for (int d = 0; d < window_.operand_rank; ++d) {
    constant += (placement_.window_begin[d] - placement_.operand_begin[d]) * operand_.strides[d];
    if (window_.batching[d] < 0) continue;
    operand_batch_stride[window_.batching[d]] += operand_.strides[d];
    constant += placement_.batch_begin[window_.batching[d]] * operand_.strides[d];
  }
  const int inner = inner_;
  std::int64_t position[kMaxRank] = {};
  for (std::int64_t b = inner, rest = begin; b >= 0; --b) {
    position[b] = rest % batch_shape_[b];
    rest /= batch_shape_[b];
  }
  for (std::int64_t done = 0; done < n;) {
    std::int64_t operand_base = constant, windows_base = 0, index_base = 0;
    for (int b = 0; b <= inner; ++b) {
      operand_base += position[b] * operand_batch_stride[b];
      windows_base += position[b] * batch_windows_[b];
      index_base += position[b] * batch_indices_[b];
    }
    const std::int64_t m = inner < 0 ? 1 : std::min(n - done, batch_shape_[inner] - position[inner]);
    const std::int64_t operand_step = inner < 0 ? 0 : operand_batch_stride[inner];
    const std::int64_t windows_step = inner < 0 ? 0 : batch_windows_[inner];
    const std::int64_t index_step = inner < 0 ? 0 : batch_indices_[inner];
    fill(operand_base, operand_step, m, operand_offset + done);
    fill(windows_base, windows_step, m, windows_offset + done);
    for (int d = 0; d < window_.operand_rank; ++d) {
      if (window_.component[d] < 0) continue;
      const char* index =
          indices_.as<char>() + (index_base + window_.component[d] * component_stride_) * index_size;
      add(indices_.type, index, index_step, m, clamp, window_.wrap[d],
          placement_.operand_dims[d] - placement_.slice_sizes[d], operand_.strides[d], operand_offset + done);
    }
    done += m;
    if (inner < 0) break;
    position[inner] += m;
    for (int b = inner; b > 0 && position[b] == batch_shape_[b]; --b) {
      position[b] = 0;
      ++position[b - 1];
    }
  }
}

bool WindowRows::AreElements(Elements* elements) const {
  return WindowLoop().elements == 1 && AreIndexed(elements);
}

bool WindowRows::AreIndexed(Elements* elements) const {
  if (placement_.clipped || (indices_.type != DType::kS32 && indices_.type != DType::kS64)) return false;
  const Loop loop = WindowLoop();
  if (std::any_of(loop.indexed, loop.indexed + loop.rank, [](bool indexed) { return indexed; })) return false;
  int indexed = -1;
  *elements = {indices_.type, nullptr, 0, 0, 0, 0, 0, 0};
  for (int d = 0; d < window_.operand_rank; ++d) {
    elements->base += (placement_.window_begin[d] - placement_.operand_begin[d]) * operand_.strides[d];
    if (window_.batching[d] >= 0 || (window_.component[d] >= 0 && indexed >= 0)) return false;
    if (window_.component[d] >= 0) indexed = d;
  }
  if (indexed < 0) return false;
  // Merge all batch dimensions into one.
  std::int64_t rows = 1;
  for (int b = window_.batch_rank - 1; b >= 0; --b) {
    if (batch_shape_[b] == 1) continue;
    if (rows == 1) {
      elements->index_stride = batch_indices_[b];
      elements->windows_step = batch_windows_[b];
    } else if (batch_indices_[b] != rows * elements->index_stride ||
               batch_windows_[b] != rows * elements->windows_step) {
      return false;
    }
    rows *= batch_shape_[b];
  }
  const auto size = static_cast<std::int64_t>(SizeOf(indices_.type));
  elements->index = indices_.as<char>() + window_.component[indexed] * component_stride_ * size;
  elements->wrap = window_.wrap[indexed];
  elements->limit = placement_.operand_dims[indexed] - placement_.slice_sizes[indexed];
  elements->operand_stride = operand_.strides[indexed];
  return true;
}

std::int64_t WindowRows::ElementRun(std::int64_t begin, std::int64_t end, Elements* elements,
                                    std::int64_t* windows_offset) const {
  const int inner = inner_;
  if (inner < 0 || placement_.clipped || (indices_.type != DType::kS32 && indices_.type != DType::kS64) ||
      WindowLoop().elements != 1) {
    return 0;
  }
  std::int64_t position[kMaxRank], index = 0;
  *windows_offset = 0;
  for (std::int64_t b = inner, rest = begin; b >= 0; --b) {
    position[b] = rest % batch_shape_[b];
    rest /= batch_shape_[b];
    index += position[b] * batch_indices_[b];
    *windows_offset += position[b] * batch_windows_[b];
  }
  *elements = {indices_.type, nullptr, batch_indices_[inner], 0, 0, 0, 0, batch_windows_[inner]};
  int indexed = -1;
  for (int d = 0; d < window_.operand_rank; ++d) {
    std::int64_t at = placement_.window_begin[d] - placement_.operand_begin[d];
    const int batch = window_.batching[d];
    if (batch == inner || (window_.component[d] >= 0 && indexed >= 0)) return 0;
    if (batch >= 0) at += placement_.batch_begin[batch] + position[batch];
    if (window_.component[d] >= 0) indexed = d;
    elements->base += at * operand_.strides[d];
  }
  if (indexed < 0) return 0;
  index += window_.component[indexed] * component_stride_;
  elements->index = indices_.as<char>() + index * static_cast<std::int64_t>(SizeOf(indices_.type));
  elements->wrap = window_.wrap[indexed];
  elements->limit = placement_.operand_dims[indexed] - placement_.slice_sizes[indexed];
  elements->operand_stride = operand_.strides[indexed];
  return std::min(end - begin, batch_shape_[inner] - position[inner]);
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
