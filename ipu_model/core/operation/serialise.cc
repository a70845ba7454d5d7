// Binary serialisation with bounds-checked reads.
#include "core/operation/serialise.h"

#include <algorithm>
#include <cstring>

#include "kernels/host/host_tensor.h"

namespace ipu_model {

void Writer::WriteInteger(std::int64_t value) {
  // Zigzag encoding, so that small values of either sign are short.
  auto bits = (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
  while (bits >= 0x80) {
    data_.push_back(static_cast<char>(bits | 0x80));
    bits >>= 7;
  }
  data_.push_back(static_cast<char>(bits));
}

void Writer::Write(double value) { data_.append(reinterpret_cast<const char*>(&value), sizeof value); }

void Writer::Write(float value) { data_.append(reinterpret_cast<const char*>(&value), sizeof value); }

void Writer::WriteBytes(const void* data, std::size_t size) {
  Write(size);
  if (size > 0) data_.append(static_cast<const char*>(data), size);
}

void Writer::Write(std::string_view value) { WriteBytes(value.data(), value.size()); }

void Writer::Write(const Box& value) {
  Write(value.begin);
  Write(value.end);
}

void Writer::Write(const View& value) {
  Write(value.variable);
  Write(value.type);
  Write(value.offset);
  Write(value.shape);
  Write(value.strides);
}

void Writer::Write(const Grid& value) {
  Write(value.shape);
  Write(value.parts);
  Write(value.grain);
  Write(value.tile_stride);
  Write(value.first_tile);
  Write(value.num_tiles);
}

void Writer::Write(const MappedInterval& value) {
  Write(value.begin);
  Write(value.end);
  Write(value.tile);
}

void Writer::Write(const Mapping& value, std::int64_t num_elements) {
  Write(value.grid() != nullptr);
  if (value.grid() != nullptr) {
    Write(*value.grid());
    return;
  }
  std::vector<MappedInterval> intervals;
  if (!value.empty()) value.Intervals(0, num_elements, &intervals);
  Write(intervals);
}

void Writer::Write(const Instruction& value) {
  Write(value.op);
  Write(value.operand_type);
  Write(value.result_type);
  for (std::uint16_t operand : value.operand) Write(operand);
  Write(value.immediate);
}

void Writer::Write(const ScalarConstant& value) {
  Write(value.type);
  data_.append(reinterpret_cast<const char*>(value.bytes), sizeof value.bytes);
}

void Writer::Write(const Expression& value) {
  Write(value.inputs);
  Write(value.constants);
  Write(value.code);
  Write(value.outputs);
}

void Reader::Fail(const std::string& reason) const {
  throw SerialiseError(reason + " at byte " + std::to_string(position_) + " of " +
                       std::to_string(data_.size()));
}

const unsigned char* Reader::Bytes(std::size_t size) {
  if (size > remaining()) Fail("the data ends early");
  const auto* bytes = reinterpret_cast<const unsigned char*>(data_.data()) + position_;
  position_ += size;
  return bytes;
}

std::int64_t Reader::ReadInteger(std::int64_t min, std::int64_t max) {
  std::uint64_t bits = 0;
  for (unsigned shift = 0;; shift += 7) {
    const std::uint64_t byte = *Bytes(1);
    if (shift == 63 && byte > 1) Fail("an integer is too long");
    bits |= (byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) break;
  }
  const auto value = static_cast<std::int64_t>((bits >> 1) ^ (~(bits & 1) + 1));
  if (value < min || value > max) {
    Fail("the value " + std::to_string(value) + " is outside [" + std::to_string(min) + ", " +
         std::to_string(max) + "]");
  }
  return value;
}

std::size_t Reader::ReadLength() {
  return static_cast<std::size_t>(ReadInteger(0, static_cast<std::int64_t>(remaining())));
}

std::string_view Reader::ReadBytes() {
  const std::size_t size = ReadLength();
  // The length is read before the bytes, so it may be longer than the remaining data.
  return {reinterpret_cast<const char*>(Bytes(size)), size};
}

void Reader::ReadInto(double* out) { std::memcpy(out, Bytes(sizeof *out), sizeof *out); }

void Reader::ReadInto(float* out) { std::memcpy(out, Bytes(sizeof *out), sizeof *out); }

void Reader::ReadInto(std::string* out) { *out = std::string(ReadBytes()); }

void Reader::ReadInto(Box* out) {
  out->begin = Read<Shape>();
  out->end = Read<Shape>();
  if (out->begin.size() != out->end.size()) Fail("a box has begins and ends of different ranks");
}

void Reader::ReadInto(View* out) {
  out->variable = Read<VariableId>();
  out->type = Read<DType>();
  out->offset = Read<std::int64_t>();
  out->shape = Read<Shape>();
  out->strides = Read<Shape>();
  if (out->shape.size() != out->strides.size() || out->shape.size() > static_cast<std::size_t>(kMaxRank)) {
    Fail("a view has an invalid rank");
  }
}

void Reader::ReadInto(Grid* out) {
  out->shape = Read<Shape>();
  out->parts = Read<Shape>();
  out->grain = Read<Shape>();
  out->tile_stride = Read<Shape>();
  out->first_tile = Read<unsigned>();
  out->num_tiles = Read<unsigned>();
  const std::size_t rank = out->shape.size();
  bool ok = rank <= static_cast<std::size_t>(kMaxRank) && out->parts.size() == rank &&
            out->grain.size() == rank && out->tile_stride.size() == rank && out->num_tiles > 0;
  // What Grid computes from these numbers stays below 2^62.
  double elements = 1, parts = 1, tiles = static_cast<double>(out->first_tile);
  for (std::size_t d = 0; ok && d < rank; ++d) {
    ok = out->shape[d] >= 0 && out->parts[d] > 0 && out->grain[d] > 0 && out->tile_stride[d] >= 0;
    const auto extent = static_cast<double>(out->shape[d]), count = static_cast<double>(out->parts[d]);
    ok = ok && (extent + static_cast<double>(out->grain[d])) * count < 4e18;
    elements *= std::max(extent, 1.0);
    parts *= count;
    tiles += static_cast<double>(out->tile_stride[d]) * count;
  }
  if (!ok || elements > 4e18 || parts > 4e9 || tiles > 4e18) Fail("a grid is invalid");
}

void Reader::ReadInto(MappedInterval* out) {
  out->begin = Read<std::int64_t>();
  out->end = Read<std::int64_t>();
  out->tile = Read<unsigned>();
}

Mapping Reader::ReadMapping(std::int64_t num_elements) {
  if (Read<bool>()) {
    auto grid = Read<Grid>();
    if (NumElements(grid.shape) != num_elements)
      Fail("a tile mapping does not have the size of its variable");
    return Mapping(std::move(grid));
  }
  auto intervals = Read<std::vector<MappedInterval>>();
  std::int64_t end = 0;
  for (const MappedInterval& r : intervals) {
    if (r.begin < end || r.end <= r.begin || r.end > num_elements)
      Fail("a tile mapping has intervals out of order");
    end = r.end;
  }
  return intervals.empty() ? Mapping() : Mapping(std::move(intervals));
}

void Reader::ReadInto(Instruction* out) {
  out->op = Read<ScalarOp>();
  out->operand_type = Read<DType>();
  out->result_type = Read<DType>();
  for (std::uint16_t& operand : out->operand) operand = Read<std::uint16_t>();
  out->immediate = Read<std::uint32_t>();
}

void Reader::ReadInto(ScalarConstant* out) {
  out->type = Read<DType>();
  std::memcpy(out->bytes, Bytes(sizeof out->bytes), sizeof out->bytes);
}

void Reader::ReadInto(Expression* out) {
  out->inputs = Read<std::vector<DType>>();
  out->constants = Read<std::vector<ScalarConstant>>();
  out->code = Read<std::vector<Instruction>>();
  out->outputs = Read<std::vector<std::uint16_t>>();
  // Check that every register is defined before it is used.
  std::size_t defined = out->inputs.size() + out->constants.size();
  for (const Instruction& i : out->code) {
    for (std::uint16_t operand : i.operand) {
      if (operand >= defined && operand != 0) Fail("an expression uses a register before it is set");
    }
    ++defined;
  }
  for (std::uint16_t output : out->outputs) {
    if (output >= defined) Fail("an expression returns a register that is not set");
  }
}

}  // namespace ipu_model
