// Exceptions that programs tell apart, and what they carry.
#include "poplar/exceptions.hpp"

#include <sstream>

#include "check.h"
#include "poplar/Graph.hpp"
#include "poplar/IPUModel.hpp"
#include "poplar/QuarterFloat.hpp"

namespace {

using namespace poplar;

// The name of the class, as the first handler of a program sees it.
template <typename E, typename... Arguments>
std::string Caught(Arguments... arguments) {
  try {
    throw E(arguments...);
  } catch (const poplar_error& error) {
    return error.type + ": " + error.what();
  }
}

}  // namespace

TEST(KnowTheirNames) {
  CHECK_EQ(Caught<poplar_error>("a"), std::string("poplar_error: a"));
  CHECK_EQ(Caught<index_error>("b"), std::string("index_error: b"));
  CHECK_EQ(Caught<link_error>("c", "output"), std::string("link_error: c"));
  CHECK_EQ(Caught<application_runtime_error>("d"), std::string("application_runtime_error: d"));
  CHECK_EQ(Caught<unrecoverable_runtime_error>("e"), std::string("unrecoverable_runtime_error: e"));
  CHECK_EQ(Caught<recoverable_runtime_error>(RecoveryAction::IPU_RESET, "f"),
           std::string("recoverable_runtime_error: f"));
  CHECK_EQ(Caught<symbol_error>("g", 3u), std::string("symbol_error: there is no symbol 'g' on tile 3"));
}

TEST(HandlersOfABaseClass) {
  CHECK_THROWS(runtime_error, throw application_runtime_error(""));
  CHECK_THROWS(system_runtime_error, throw unknown_runtime_error(""));
  try {
    throw recoverable_runtime_error(RecoveryAction::PARTITION_RESET, "");
  } catch (const system_runtime_error& error) {
    const auto* const recoverable = dynamic_cast<const recoverable_runtime_error*>(&error);
    CHECK(recoverable != nullptr && recoverable->getRecoveryAction() == RecoveryAction::PARTITION_RESET);
  }
  std::ostringstream text;
  text << RecoveryAction::IPU_RESET << ' ' << RecoveryAction::LINK_RESET << ' ' << RecoveryAction::FULL_RESET;
  CHECK_EQ(text.str(), std::string("IPU_RESET LINK_RESET FULL_RESET"));
}

TEST(IndicesOfTensors) {
  Graph graph(IPUModel("ipu2").createDevice());
  const Tensor x = graph.addVariable(FLOAT, {2, 3}, "x");
  CHECK_THROWS(index_error, x[2]);
  CHECK_THROWS(index_error, x.slice(1, 4, 1));
  CHECK_THROWS(index_error, x.slice(0, 1, 2));
  CHECK_THROWS(index_error, x.index({0, 0, 0}));
}

TEST(AttributesAndVersions) {
  IPUModel model("bow");
  model.numIPUs = 2;
  const Device device = model.createDevice();
  CHECK_EQ(device.getAttribute("architecture"), device.getTarget().getTargetArchString());
  CHECK_EQ(device.getAttribute("IPUs"), std::string("2"));
  const auto attributes = device.getAttributes();
  CHECK_EQ(attributes.at("tiles per IPU"), std::string("1472"));
  CHECK_THROWS(poplar_error, device.getAttribute("colour"));
  CHECK_EQ(packageHash().size(), 10u);
  CHECK(versionString().find("ipu_model") != std::string::npos);
  CHECK(TypeTraits::requiresMetadata<quarter>() && !TypeTraits::requiresMetadata<float>());
}
