// Programs on a device, and what is loaded of them.
#include <set>
#include <utility>

#include "runtime/device/residency.h"

namespace jax_ipu {

LoadedImage::LoadedImage(std::shared_ptr<const Executable> executable, Image image)
    : executable_(std::move(executable)),
      image_(std::move(image)),
      variables_(image_.variables.size()),
      programs_(image_.entries.size()) {}

std::size_t LoadedImage::BytesOfState() const {
  std::set<const HostBlock*> blocks;
  std::size_t bytes = BytesOfArrays();
  for (const std::weak_ptr<LoadedProgram>& program : programs_) {
    const std::shared_ptr<LoadedProgram> alive = program.lock();
    if (!alive) continue;
    for (const std::weak_ptr<HostBlock>& array : alive->host_arrays_) {
      const std::shared_ptr<HostBlock> block = array.lock();
      if (block && blocks.insert(block.get()).second) bytes += block->bytes();
    }
  }
  return bytes;
}

std::size_t LoadedImage::BytesOfArrays() const {
  std::size_t bytes = 0;
  for (const ImageVariable& variable : image_.variables) {
    if (variable.read_program >= 0) bytes += variable.bytes;
  }
  return bytes;
}

LoadedProgram::LoadedProgram(std::shared_ptr<const Executable> executable, unsigned replica,
                             std::shared_ptr<const ProgramSource> source)
    : executable_(std::move(executable)),
      replica_(replica),
      source_(std::move(source)),
      callbacks_(executable_->host_callbacks),
      ffi_calls_(executable_->ffi_calls),
      image_(std::make_shared<LoadedImage>(executable_, ImageOf(*executable_))) {
  MoveTo(image_, 0);
  asks_others_ = num_ipus() > 1 && CanLink();
}

void LoadedProgram::MoveTo(std::shared_ptr<LoadedImage> image, std::size_t entry) {
  image_ = std::move(image);
  entry_ = entry;
  connected_ = false;
  inputs_.assign(executable_->inputs.size(), {});
  output_streams_.assign(executable_->outputs.size(), -1);
  output_is_remote_.assign(executable_->outputs.size(), false);
  seed_stream_ = -1;
}

}  // namespace jax_ipu
