// Residency: loading, spilling, and moving states and streams around a run.
#include "runtime/device/residency.h"

#include <algorithm>
#include <string>

#include "ipu_model/Log.hpp"

namespace jax_ipu {
namespace {

using ipu_model::LogLevel;
using ipu_model::LogModule;
// A run that has to spill more than this first is left to the device's thread.
constexpr std::size_t kCheapSpillBytes = std::size_t{256} << 10;

std::size_t LargestInput(const Executable& executable) {
  std::size_t bytes = sizeof(Seed);
  for (const InputSpec& input : executable.inputs) bytes = std::max(bytes, input.tensor.bytes());
  return bytes;
}

// The compiler may leave out streams of tensors without elements.
int StreamOf(const DeviceEngine& engine, std::size_t bytes, const std::string& name) {
  if (bytes == 0 && !engine.HasStream(name)) return -1;
  return engine.StreamIndex(name);
}

}  // namespace

void Residency::Connect(LoadedImage& image) {
  for (std::size_t v = 0; v < image.variables_.size(); ++v) {
    const ImageVariable& variable = image.image_.variables[v];
    LoadedImage::Variable& loaded = image.variables_[v];
    loaded.write_stream = StreamOf(*image.engine_, variable.bytes, variable.stream);
    if (variable.read_program >= 0)
      loaded.read_stream = StreamOf(*image.engine_, variable.bytes, variable.stream + ".out");
  }
}

void Residency::Connect(LoadedProgram& program) {
  const Executable& executable = *program.executable_;
  DeviceEngine& engine = *program.image_->engine_;
  const std::string& prefix = program.entry().prefix;
  engine.ConnectFfiCalls(program.ffi_calls_, device_id_);
  for (std::size_t i = 0; i < executable.inputs.size(); ++i) {
    const InputSpec& spec = executable.inputs[i];
    if (program.variable(i) >= 0 || !spec.used) continue;
    LoadedProgram::Input& input = program.inputs_[i];
    const std::string name = prefix + "in" + std::to_string(i);
    input.is_remote = engine.HasRemoteBuffer(name);
    if (!input.is_remote) input.stream = StreamOf(engine, spec.tensor.bytes(), name);
  }
  for (std::size_t j = 0; j < executable.outputs.size(); ++j) {
    const OutputSpec& spec = executable.outputs[j];
    if (spec.aliased_input >= 0 || spec.forwarded_input >= 0) continue;
    const std::string name = prefix + "out" + std::to_string(j);
    program.output_is_remote_[j] = engine.HasRemoteBuffer(name);
    if (!program.output_is_remote_[j])
      program.output_streams_[j] = StreamOf(engine, spec.tensor.bytes(), name);
  }
  if (engine.HasStream(prefix + kSeedStream)) program.seed_stream_ = engine.StreamIndex(prefix + kSeedStream);
  program.connected_ = true;
}

void Residency::Load(const std::shared_ptr<LoadedProgram>& program, const std::vector<Argument>& arguments) {
  if (loaded_ != program->image_) {
    // Those of several IPUs are linked where all replicas decide it.
    if (program->num_ipus() == 1 && ShouldLink(*program, arguments)) {
      const LinkPlan plan = PlanLink(program, arguments);
      Link(*program, plan, [&] { return linker_(plan.parts); });
    }
    const auto is_in_loaded = [this](const Argument& argument) {
      return loaded_ && argument.array->image_ == loaded_;
    };
    if (std::any_of(arguments.begin(), arguments.end(), is_in_loaded)) ++program->times_returned_;
  }
  const std::shared_ptr<LoadedImage> image = program->image_;
  image->programs_[program->entry_] = program;
  if (loaded_ != image) {
    if (loaded_) {
      Spill(*loaded_);
      for (const std::weak_ptr<LoadedProgram>& other : loaded_->programs_) {
        if (const auto alive = other.lock()) alive->asks_others_ = alive->num_ipus() > 1 && alive->CanLink();
      }
    }
    loaded_.reset();
    if (!image->engine_) {
      image->engine_ = factory_(*image->executable_, config_);
      Connect(*image);
    }
    image->engine_->Load();
    loaded_ = image;
    Add(usage_->engine_loads, 1);
    const std::uint64_t bytes = image->executable_->memory.total_bytes;
    usage_->bytes_in_use.store(bytes, std::memory_order_relaxed);
    if (bytes > peak_bytes_in_use()) usage_->peak_bytes_in_use.store(bytes, std::memory_order_relaxed);
  }
  if (!program->connected_) {
    Connect(*program);
    const std::size_t largest = LargestInput(*program->executable_);
    if (config_.synthetic_data && (!image->zeros_ || image->zeros_->bytes() < largest))
      image->zeros_ = HostBlock::Zeros(largest);
  }
  if (shown_.lock() != program) {
    usage_->SetProgram(program->executable_->name);
    shown_ = program;
  }
}

void Residency::Spill(LoadedImage& image) {
  ForgetKept(image);
  for (LoadedImage::Variable& variable : image.variables_) Evict(variable);
}

void Residency::Evict(LoadedImage::Variable& variable) {
  if (const std::shared_ptr<Array> array = variable.resident.lock()) {
    Fetch(*array);
    array->image_.reset();
  }
  variable.resident.reset();
}

void Residency::Fetch(Array& array) {
  if (const Error* error = Wait(array.ready())) throw Error(*error);
  if (array.on_host()) {
    if (!array.received_) CountRead(array);
    return;
  }
  const std::shared_ptr<LoadedImage> image = array.image_;
  array.PublishHost(Read(array));
  CountReceived(array.spec().bytes());
  if (Trace::IsActive())
    TraceTransfer(TracedTransfer::Kind::kToHost, image->image_.variables[array.slot_].title_of_result,
                  array.spec().bytes());
}

void Residency::FetchForLinks(Array& array) {
  if (const Error* error = Wait(array.ready())) throw Error(*error);
  if (array.on_host()) return;
  array.only_on_ipus_.store(true, std::memory_order_relaxed);
  array.PublishHost(Read(array));
}

void Residency::CountRead(Array& array) {
  if (!array.only_on_ipus() || !array.only_on_ipus_.exchange(false)) return;
  CountReceived(array.spec().bytes());
  if (Trace::IsActive()) AddToTraces({TracedTransfer::Kind::kToHost, "", array.spec().bytes(), 0});
}

std::uint64_t Residency::BytesToSend(Array& array) {
  return std::exchange(array.received_, false) ? 0 : array.spec().bytes();
}

std::shared_ptr<HostBlock> Residency::Read(const Array& array) {
  // Keeps the image alive: the array may be its last owner, and gives it up when it is published.
  const std::shared_ptr<LoadedImage> image = array.image_;
  if (!image || image != loaded_) {
    throw Error(Code::kInternal, "An array is neither on the host nor on the device");
  }
  const std::size_t bytes = array.spec().bytes();
  if (config_.synthetic_data) return HostBlock::Zeros(bytes);
  LogTransfer("reads", image->image_.variables[array.slot_], bytes);
  std::shared_ptr<HostBlock> block = HostBlock::Allocate(pool_, bytes);
  if (bytes > 0) {
    image->engine_->ConnectStream(image->variables_[array.slot_].read_stream, block->data());
    image->engine_->Run(image->image_.variables[array.slot_].read_program);
  }
  return block;
}

bool Residency::IsCheapToSwitchTo(const LoadedProgram& program,
                                  const std::vector<Argument>& arguments) const {
  if (!program.image_->engine_) return false;
  if (!loaded_ || loaded_ == program.image_) return true;
  if (loaded_->BytesOfArrays() > kCheapSpillBytes) return false;
  return program.num_ipus() > 1 || !ShouldLink(program, arguments);
}

// Requires that one of the two is the first variable of its type.
void Residency::Swap(LoadedImage& image, std::size_t first, std::size_t other) {
  image.engine_->Run(image.image_.variables[other].swap_program);
  LoadedImage::Variable &a = image.variables_[first], &b = image.variables_[other];
  std::swap(a.resident, b.resident);
  std::swap(a.kept, b.kept);
  std::swap(a.kept_data, b.kept_data);
  for (const std::size_t slot : {first, other}) {
    if (const std::shared_ptr<Array> array = image.variables_[slot].resident.lock()) array->slot_ = slot;
  }
}

// Follows each cycle of the permutation, through the first variable of the type: one swap for each state that
// moves, and one more where the first is not in the cycle.
void Residency::SwapStates(LoadedProgram& program, const std::vector<Argument>& arguments) {
  LoadedImage& image = *program.image_;
  const auto is_here = [&](std::size_t i) {
    return program.executable_->inputs[i].aliased_output >= 0 && arguments[i].array->image_.get() == &image;
  };
  bool in_place = true;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    in_place = in_place && (!is_here(i) || IsInPlace(*arguments[i].array, program, i));
  }
  if (in_place) return;

  const auto first_of_type = [&](std::size_t slot) {
    const int first = image.image_.variables[slot].swap_with;
    return first < 0 ? slot : static_cast<std::size_t>(first);
  };
  // For each variable, the one where the array in it shall be. An array that is passed as two arguments
  // counts as the argument of its variable.
  constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  std::vector<std::size_t> wanted(image.variables_.size(), kNone);
  for (const bool moves : {false, true}) {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (!is_here(i)) continue;
      const std::size_t from = arguments[i].array->slot_;
      const auto to = static_cast<std::size_t>(program.variable(i));
      if ((from != to) != moves || wanted[from] != kNone) continue;
      if (first_of_type(from) == first_of_type(to)) wanted[from] = to;
    }
  }
  const auto is_misplaced = [&](std::size_t slot) { return wanted[slot] != kNone && wanted[slot] != slot; };
  const auto swap = [&](std::size_t first, std::size_t other) {
    Swap(image, first, other);
    std::swap(wanted[first], wanted[other]);
  };
  for (std::size_t slot = 0; slot < wanted.size(); ++slot) {
    while (is_misplaced(slot)) {
      const std::size_t first = first_of_type(slot);
      if (slot != first) swap(first, slot);
      while (is_misplaced(first)) swap(first, wanted[first]);
    }
  }
}

void Residency::PrepareHostCopies(LoadedProgram& program, const std::vector<Argument>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const InputSpec& spec = program.executable_->inputs[i];
    Array& array = *arguments[i].array;
    const int variable = program.variable(i);
    const bool in_place = variable >= 0 && IsInPlace(array, program, i);
    if (in_place && spec.aliased_output < 0) continue;  // main only reads the variable
    if (in_place) {
      if (!arguments[i].donated) Fetch(array);  // main overwrites the variable, the caller keeps the array
      continue;
    }
    if (variable < 0 && !spec.used) continue;
    Fetch(array);
    if (variable >= 0) Evict(program.image_->variables_[static_cast<std::size_t>(variable)]);
  }
}

void Residency::CountWrite(const ImageVariable& variable, std::uint64_t bytes) {
  CountSent(bytes);
  if (traced_ != nullptr && bytes > 0) TraceTransfer(TracedTransfer::Kind::kFromHost, variable.title, bytes);
}

// Host memory is written only once, so the same block always holds the same value. Where it lies matters to
// the model, which may read it there.
bool Residency::IsCopyOf(const LoadedImage::Variable& variable, const std::shared_ptr<HostBlock>& block) {
  return IsSameBlock(variable.kept, block) && variable.kept_data == block->data();
}

void Residency::WriteState(LoadedProgram& program, const std::vector<Argument>& arguments) {
  LoadedImage& image = *program.image_;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const InputSpec& spec = program.executable_->inputs[i];
    Array& array = *arguments[i].array;
    const std::size_t bytes = spec.tensor.bytes();
    if (spec.aliased_output < 0 || bytes == 0 || IsInPlace(array, program, i) || config_.synthetic_data)
      continue;
    const auto slot = static_cast<std::size_t>(program.variable(i));
    const ImageVariable& variable = image.image_.variables[slot];
    LoadedImage::Variable& loaded = image.variables_[slot];
    // A linked program that only reads the variable may have written the same value.
    if (IsCopyOf(loaded, array.host())) continue;
    loaded.kept.reset();
    image.engine_->ConnectStream(loaded.write_stream, array.host()->data());
    image.engine_->Run(variable.write_program);
    LogTransfer("writes", variable, bytes);
    CountWrite(variable, BytesToSend(array));
  }
}

void Residency::WriteKept(LoadedProgram& program, const std::vector<Argument>& arguments) {
  LoadedImage& image = *program.image_;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const InputSpec& spec = program.executable_->inputs[i];
    if (spec.aliased_output >= 0 || program.variable(i) < 0 || IsInPlace(*arguments[i].array, program, i))
      continue;
    const auto slot = static_cast<std::size_t>(program.variable(i));
    LoadedImage::Variable& loaded = image.variables_[slot];
    const std::shared_ptr<HostBlock>& block =
        config_.synthetic_data ? image.zeros_ : arguments[i].array->host();
    if (IsCopyOf(loaded, block)) continue;
    void* const data = block->data();
    image.engine_->ConnectStream(loaded.write_stream, data);
    image.engine_->Run(image.image_.variables[slot].write_program);
    LogTransfer("writes", image.image_.variables[slot], spec.tensor.bytes());
    CountWrite(image.image_.variables[slot], BytesToSend(*arguments[i].array));
    loaded.kept = loaded.last = block;
    loaded.kept_data = data;
  }
}

void Residency::ConnectStreams(LoadedProgram& program, const std::vector<Argument>& arguments,
                               const ArrayList& outputs) {
  const Executable& executable = *program.executable_;
  DeviceEngine& engine = *program.image_->engine_;
  const std::string& prefix = program.entry().prefix;
  std::uint64_t h2d = 0, d2h = 0;
  program.host_arrays_.clear();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (executable.inputs[i].in_host_memory) program.host_arrays_.push_back(arguments[i].array->host());
    if (program.inputs_[i].is_remote) {
      engine.ConnectRemoteBuffer(prefix + "in" + std::to_string(i), SourceOf(program, *arguments[i].array));
      arguments[i].array->received_ = false;
    }
    if (program.inputs_[i].stream < 0) continue;
    engine.ConnectStream(program.inputs_[i].stream, SourceOf(program, *arguments[i].array));
    const std::uint64_t sent = BytesToSend(*arguments[i].array);
    h2d += sent;
    if (traced_ != nullptr && sent == 0) traced_->streams_from_ipus.push_back("in" + std::to_string(i));
  }
  for (std::size_t j = 0; j < outputs.size(); ++j) {
    if (executable.outputs[j].in_host_memory && outputs[j]->on_host())
      program.host_arrays_.push_back(outputs[j]->host());
    if (program.output_is_remote_[j]) {
      engine.ConnectRemoteBuffer(prefix + "out" + std::to_string(j), outputs[j]->host()->data());
    } else if (program.output_streams_[j] >= 0) {
      engine.ConnectStream(program.output_streams_[j], outputs[j]->host()->data());
      d2h += outputs[j]->host()->bytes();
    } else if (const int forwarded = executable.outputs[j].forwarded_input;
               forwarded >= 0 && !outputs[j]->on_host()) {
      Array& array = *arguments[static_cast<std::size_t>(forwarded)].array;
      Fetch(array);
      outputs[j]->PublishHost(array.host());
    }
  }
  if (program.seed_stream_ >= 0) {
    ++seed_[0];
    engine.ConnectStream(program.seed_stream_, seed_.data());
    h2d += sizeof(Seed);
  }
  CountSent(h2d);
  CountReceived(d2h);
}

void Residency::TransferState(LoadedProgram& program, const std::vector<Argument>& arguments,
                              const ArrayList& outputs) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const InputSpec& spec = program.executable_->inputs[i];
    if (spec.aliased_output < 0) continue;
    const std::shared_ptr<Array>& output = outputs[static_cast<std::size_t>(spec.aliased_output)];
    if (spec.unchanged && arguments[i].array->on_host()) {
      arguments[i].array->host()->Own(pool_);
      output->PublishHost(arguments[i].array->host());
    }
    const auto slot = static_cast<std::size_t>(program.variable(i));
    output->image_ = loaded_;
    output->slot_ = slot;
    LoadedImage::Variable& variable = program.image_->variables_[slot];
    variable.resident = output;
    variable.kept.reset();
    variable.last.reset();
  }
}

void Residency::ReleaseState(LoadedProgram& program, const std::vector<Argument>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (program.executable_->inputs[i].aliased_output < 0) continue;
    arguments[i].array->image_.reset();
    program.image_->variables_[static_cast<std::size_t>(program.variable(i))].resident.reset();
  }
}

void Residency::ForgetKept(LoadedImage& image) {
  for (LoadedImage::Variable& variable : image.variables_) variable.kept.reset();
}

void Residency::LogTransfer(const char* what, const ImageVariable& variable, std::size_t bytes) const {
  if (config_.synthetic_data || !IsLogged(LogModule::kEngine, LogLevel::kTrace)) return;
  Log(LogModule::kEngine, LogLevel::kTrace,
      "IPU " + std::to_string(device_id_) + ": the host " + what + " " + variable.stream + ", " +
          std::to_string(bytes) + " bytes");
}

}  // namespace jax_ipu
