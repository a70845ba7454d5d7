#include "pjrt/extensions.h"

#include <memory>

#include "pjrt/abi/entry.h"
#include "pjrt/abi/serialized_bytes.h"
#include "pjrt/abi/tensor_lists.h"
#include "pjrt/abi_version.h"
#include "pjrt/buffers/buffer.h"
#include "pjrt/executables/executable_description.h"
#include "pjrt/profiler.h"

namespace jax_ipu::pjrt {

namespace {

PJRT_Layouts_MemoryLayout* NewLayout(const DimensionOrder& order, std::size_t rank) {
  return Release(
      std::make_unique<PJRT_Layouts_MemoryLayout>(PJRT_Layouts_MemoryLayout{MinorToMajor(order, rank)}));
}

void LayoutDestroy(PJRT_Layouts_MemoryLayout_Destroy_Args& args) { Destroy(args.layout); }
// XLA's text of a layout: the dimensions from minor to major.
void LayoutSerialize(PJRT_Layouts_MemoryLayout_Serialize_Args& args) {
  std::string text;
  for (const std::int64_t d : args.layout->minor_to_major)
    text += (text.empty() ? "{" : ",") + std::to_string(d);
  SerializedBytes bytes(text.empty() ? "{}" : text + "}");
  bytes.Give(args.serialized_bytes, args.serialized_bytes_size, args.serialized_layout,
             args.serialized_layout_deleter);
}
void ClientDefaultLayout(PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args& args) {
  args.layout = NewLayout({}, args.num_dims);
}
void TopologyDefaultLayout(PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args& args) {
  args.layout = NewLayout({}, args.num_dims);
}
void BufferLayout(PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args& args) {
  args.layout = NewLayout(args.buffer->order, args.buffer->spec->shape.size());
}
void OutputLayouts(PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args& args) {
  args.num_outputs = args.executable->output_layouts.size();
  args.layouts = args.executable->output_layouts.data();
}
void ParameterLayouts(PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args& args) {
  args.num_parameters = args.executable->input_layouts.size();
  args.layouts = args.executable->input_layouts.data();
}

// Gives null for a program for one device, which has no shardings.
void Give(const ShardingList& list, std::size_t& count, const char* const*& data, const std::size_t*& sizes) {
  count = list.size();
  data = count == 0 ? nullptr : list.data();
  sizes = count == 0 ? nullptr : list.sizes();
}
void ParameterShardings(PJRT_Shardings_PJRT_Executable_ParameterShardings_Args& args) {
  Give(args.executable->input_shardings, args.num_parameters, args.shardings, args.sharding_sizes);
}
void OutputShardings(PJRT_Shardings_PJRT_Executable_OutputShardings_Args& args) {
  Give(args.executable->output_shardings, args.num_outputs, args.shardings, args.sharding_sizes);
}

template <typename Extension>
PJRT_Extension_Base Base(PJRT_Extension_Type type, PJRT_Extension_Base* next) {
  return {PjrtStructSize<Extension>::full, type, next};
}

}  // namespace

void InstallExtensions(PJRT_Api& api) {
  static PJRT_Shardings_Extension shardings = {
      Base<PJRT_Shardings_Extension>(PJRT_Extension_Type_Shardings,
                                     AbiVersionExtension(ProfilerExtension(nullptr))),
      &Entry<PJRT_Shardings_PJRT_Executable_ParameterShardings_Args, &ParameterShardings>,
      &Entry<PJRT_Shardings_PJRT_Executable_OutputShardings_Args, &OutputShardings>,
  };
  static PJRT_Layouts_Extension layouts = {
      Base<PJRT_Layouts_Extension>(PJRT_Extension_Type_Layouts, &shardings.base),
      &Entry<PJRT_Layouts_MemoryLayout_Destroy_Args, &LayoutDestroy>,
      &Entry<PJRT_Layouts_MemoryLayout_Serialize_Args, &LayoutSerialize>,
      &Entry<PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args, &ClientDefaultLayout>,
      &Entry<PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args, &BufferLayout>,
      &Entry<PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args, &TopologyDefaultLayout>,
      &Entry<PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args, &OutputLayouts>,
      &Entry<PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args, &ParameterLayouts>,
  };
  api.extension_start = &layouts.base;
}

}  // namespace jax_ipu::pjrt
