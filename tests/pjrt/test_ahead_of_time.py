"""Programs compiled for a topology while IPUs are attached: they compile, and run where they are loaded."""

from support import processes

PROGRAM = """
    import jax
    import numpy as np
    from jax.experimental import serialize_executable, topologies
    from jax.sharding import NamedSharding, PartitionSpec as P

    described = topologies.get_topology_desc("ipu2:1472", platform="ipu", num_devices=8)
    mesh = topologies.make_mesh(described, (2, 4), ("x", "y"))
    argument = jax.ShapeDtypeStruct((16, 16), np.float32, sharding=NamedSharding(mesh, P("x", "y")))
    attached = jax.devices("ipu")
    compiled = jax.jit(lambda x: x * x + x.sum()).lower(argument).compile()
    loaded = serialize_executable.deserialize_and_load(
        *serialize_executable.serialize(compiled), backend="ipu", execution_devices=attached
    )
    values = np.arange(256, dtype=np.float32).reshape(16, 16)
    local = topologies.make_mesh(topologies.get_attached_topology("ipu"), (2, 4), ("x", "y"))
    result = loaded(jax.device_put(values, NamedSharding(local, P("x", "y"))))
    np.testing.assert_array_equal(result, values * values + values.sum())
    print({shard.device.platform for shard in result.addressable_shards}, len(result.addressable_shards))
"""


def test_a_program_for_a_topology_compiles_beside_attached_devices_and_runs_there() -> None:
    variables = {"JAX_PLATFORMS": "ipu,cpu", "JAX_IPU_DEVICE_COUNT": "8"}
    assert processes.output(PROGRAM, **variables) == "{'ipu'} 8\n"
