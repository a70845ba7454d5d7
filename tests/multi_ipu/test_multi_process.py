"""jax.distributed with two processes of two IPUs each: topology, arrays, programs, failures.

Every pair of processes is bounded in time.
"""

import json
import re
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent

import jax
import numpy as np
import pytest

from support.process_programs import PROGRAMS, shards
from support.processes import run

TESTS = Path(__file__).parents[1]
COMMON = {
    "JAX_PLATFORMS": "ipu,cpu",
    "JAX_IPU_DEVICE_COUNT": "2",
    "JAX_IPU_MODEL_NUM_TILES": "16",
    "JAX_IPU_PROCESS_TIMEOUT": "60",
}
START = """
import json, os, sys, time
import jax, jax.numpy as jnp, numpy as np, jax_ipu
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
sys.path.insert(0, tests)
jax.distributed.initialize(
    f"localhost:{port}",
    num_processes=2,
    process_id=process,
    heartbeat_timeout_seconds=int(os.environ.get("HEARTBEAT", 100)),
)
def tell(**found):
    print("FOUND " + json.dumps(found), flush=True)
def everywhere(shape=(4,)):
    sharding = NamedSharding(Mesh(np.array(jax.devices("ipu")), ("i",)), P("i"))
    return jax.make_array_from_callback(shape, sharding, lambda index: np.ones(shape, np.float32)[index])
def error_of(function):
    try:
        jax.block_until_ready(function())
    except Exception as error:
        return str(error)
"""
# How a process ends after its partner is gone: JAX's own shutdown waits for all processes.
LEAVE = "os._exit(0)"
# Ends both processes at once, without the seconds of JAX's shutdown. The first process runs the coordination service;
# jaxlib ends processes that lose it, so it ends last.
LEAVE_TOGETHER = """
jax._src.distributed.global_state.client.wait_at_barrier("end", 60_000)
time.sleep(1 - process)
os._exit(0)
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return probe.getsockname()[1]


def run_pair(code, leave="jax.distributed.shutdown()", each=({}, {}), start="", **environment):
    """Runs `start` and the code as both processes. Returns what each one reported, its exit code and last errors."""
    port = free_port()

    def run_one(process):
        known = f"process, port, tests = {process}, {port}, {str(TESTS)!r}"
        return run("\n".join([known, start, START, dedent(code), leave]), **{**COMMON, **environment, **each[process]})

    with ThreadPoolExecutor(2) as pool:
        ended = list(pool.map(run_one, range(2)))
    results = []
    for process in ended:
        lines = process.stdout.splitlines()
        told = [json.loads(line.removeprefix("FOUND ")) for line in lines if line.startswith("FOUND ")]
        results.append(({k: v for part in told for k, v in part.items()}, process.returncode, process.stderr[-3000:]))
    return results


GOOD = """
from jax.experimental import multihost_utils
from support.process_programs import PROGRAMS, place, shards

devices = jax.devices()
tell(
    devices=[[d.platform, d.id, d.process_index, d.local_hardware_id] for d in devices],
    local=[d.id for d in jax.local_devices()],
    counts=[jax.process_index(), jax.process_count(), jax.device_count(), jax.local_device_count()],
)
tell(programs={name: shards(program(devices)) for name, program in PROGRAMS.items()})

mesh = Mesh(np.array(devices), ("i",))
split = NamedSharding(mesh, P("i"))
own = np.arange(6, dtype=np.float32).reshape(2, 3) + 10 * process
whole = jax.make_array_from_process_local_data(split, own)
parts = [jax.device_put(own[i : i + 1], device) for i, device in enumerate(jax.local_devices())]
tell(
    from_process=[np.asarray(s.data).tolist() for s in whole.addressable_shards],
    sum_of_whole=float(whole.sum()),
    sum_of_parts=float(jax.make_array_from_single_device_arrays((4, 3), split, parts).sum()),
    gathered=multihost_utils.process_allgather(np.arange(3) + process).tolist(),
    gathered_global=multihost_utils.process_allgather(whole, tiled=True).tolist(),
    from_first=multihost_utils.broadcast_one_to_all(np.arange(3) + process).tolist(),
    only_here=float(jax.jit(lambda v: v.sum())(jax.device_put(own, jax.local_devices()[1]))),
)
multihost_utils.sync_global_devices("sums")

# State stays in SRAM: per step, the rows of this process go to its devices and the loss comes back.
step = jax.jit(lambda w, x: (w + x.mean(0), (x @ w).mean()), donate_argnums=0)
w = place(np.ones(3, np.float32), mesh)
w, loss = step(w, whole)
before = [jax_ipu.counters(d) for d in jax.local_devices()]
w, loss = step(w, whole)
jax.block_until_ready((w, loss))
after = [jax_ipu.counters(d) for d in jax.local_devices()]
tell(traffic=[[a.h2d_bytes - b.h2d_bytes, a.d2h_bytes - b.d2h_bytes] for a, b in zip(after, before)])

here, there = (jax.local_devices(process_index=p, backend="ipu")[0] for p in (process, 1 - process))
tell(copied=error_of(lambda: jax.device_put(jax.device_put(np.ones(3), here), there)))
"""


@pytest.fixture(scope="module")
def pair():
    results = run_pair(GOOD)
    assert [code for _, code, _ in results] == [0, 0], results
    return [told for told, _, _ in results]


def test_devices_of_all_processes(pair):
    for number, told in enumerate(pair):
        hardware = [[0, 1] if p == number else [None, None] for p in range(2)]
        assert told["devices"] == [["ipu", d, d // 2, hardware[d // 2][d % 2]] for d in range(4)]
        assert told["local"] == [2 * number, 2 * number + 1]
        assert told["counts"] == [number, 2, 4, 2]


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_are_those_of_one_process(pair, name):
    expected = shards(PROGRAMS[name](jax.devices("cpu")[:4]))
    actual = {**pair[0]["programs"][name], **pair[1]["programs"][name]}
    assert sorted(actual) == sorted(expected)
    for place, value in expected.items():
        np.testing.assert_allclose(actual[place], value, rtol=2e-3 if "float16" in name else 1e-5, atol=1e-5)


def test_shards_are_where_their_process_is(pair):
    for number, told in enumerate(pair):
        assert sorted(told["programs"]["psum"]) == [f"0, {2 * number}", f"0, {2 * number + 1}"]


def test_arrays_of_local_data(pair):
    rows = [[[0, 1, 2], [3, 4, 5]], [[10, 11, 12], [13, 14, 15]]]
    for number, told in enumerate(pair):
        assert told["from_process"] == [[row] for row in rows[number]]
        assert told["sum_of_whole"] == told["sum_of_parts"] == 90
        assert told["only_here"] == 15 + 60 * number


def test_multihost_utils(pair):
    for told in pair:
        assert told["gathered"] == [[0, 1, 2], [1, 2, 3]]
        assert told["gathered_global"] == [[0, 1, 2], [3, 4, 5], [10, 11, 12], [13, 14, 15]]
        assert told["from_first"] == [0, 1, 2]


def test_donated_state_stays_in_sram(pair):
    for told in pair:
        assert told["traffic"] == [[0, 4], [0, 4]]


# Before the clients are created.
ADDRESSES = """
import os, jax
jax.config.update("jax_cross_host_transfer_socket_address", f"127.0.0.1:{os.environ['TRANSFER_PORT']}")
jax.config.update("jax_cross_host_transport_addresses", "127.0.0.1:0,127.0.0.1:0")
"""


def test_copies_between_processes():
    """As on the CPU, JAX's own transfer server carries the copies if its addresses are set."""
    results = run_pair(
        """
        values = np.arange(24, dtype=np.float32).reshape(4, 6)
        meshes = [Mesh(np.array(jax.local_devices(process_index=p, backend="ipu")), ("i",)) for p in range(2)]
        whole = [m.devices[1] for m in meshes]
        def there(spec):
            return [NamedSharding(m, spec) for m in meshes]
        def copies(places):
            # To the second process and back.
            first = jax.device_put(jax.make_array_from_callback(
                (4, 6), places[0], lambda i: values[i], dtype=np.float32), places[1])
            return [[np.asarray(s.data).tolist() for s in a.addressable_shards]
                    for a in (first, jax.device_put(first, places[0]))]
        tell(split=copies(there(P("i"))), replicated=copies(there(P())))
        tell(one=copies([jax.sharding.SingleDeviceSharding(d) for d in whole]))
        # Copies of a state that is in SRAM, and copies as arguments of a program.
        states = there(P("i"))
        state = jax.make_array_from_callback((4, 6), states[0], lambda i: values[i], dtype=np.float32)
        if process == 0:
            state = jax.jit(lambda w: w * 2, donate_argnums=0)(state)
        moved = jax.device_put(state, states[1])
        tell(state=float(jax.jit(jnp.sum)(moved)) if process == 1 else None)
        tell(unlike=error_of(lambda: jax.device_put(moved, NamedSharding(meshes[0], P(None, "i")))))
        """,
        each=tuple({"TRANSFER_PORT": str(free_port())} for _ in range(2)),
        start=ADDRESSES,
    )
    assert [code for _, code, _ in results] == [0, 0], results
    values = np.arange(24).reshape(4, 6)
    halves, all_of_it = [values[:2].tolist(), values[2:].tolist()], values.tolist()
    for name, shards_there in (("split", halves), ("replicated", [all_of_it] * 2), ("one", [all_of_it])):
        assert [told[name] for told, _, _ in results] == [[[], shards_there], [shards_there, []]], name
    assert [told["state"] for told, _, _ in results] == [None, 2 * values.sum()]
    assert all("addressable" in told["unlike"] for told, _, _ in results), results


def test_copies_between_processes_without_addresses(pair):
    for told in pair:
        assert "jax_cross_host_transfer_socket_address" in told["copied"]


PROCESS_1_DIES = """
        total = jax.jit(lambda v: v.sum())
        first = float(total(everywhere()))
        if process == 1:
            os._exit(3)
        told = error_of(lambda: total(everywhere()))
"""


def test_the_other_process_dies():
    results = run_pair(
        PROCESS_1_DIES
        + """
        tell(first=first, error=told, again=error_of(lambda: total(everywhere())), local=float(jnp.ones(3).sum()))
        """,
        LEAVE,
    )
    told, code, _ = results[0]
    assert (code, results[1][1]) == (0, 3), results
    assert told["first"] == 4 and told["local"] == 3
    assert "UNAVAILABLE: process 1 has closed the connection: it has ended or crashed" in told["error"]
    assert "since one of them failed: process 1 has closed the connection" in told["again"]


def test_a_recoverable_process_outlives_the_other():
    """Otherwise, jaxlib ends the others when it misses the heartbeat of one."""
    results = run_pair(
        PROCESS_1_DIES
        + """
        client = jax._src.distributed.global_state.client
        end = time.time() + 60
        while 1 in client.get_live_nodes([0, 1]) and time.time() < end:
            time.sleep(0.2)
        time.sleep(2)
        own = NamedSharding(Mesh(np.array(jax.local_devices()), ("i",)), P("i"))
        here = float(total(jax.device_put(np.arange(4, dtype=np.float32), own)))
        tell(first=first, error=told, alive=list(client.get_live_nodes([0, 1])), here=here)
        """,
        JAX_ENABLE_RECOVERABILITY="1",
        HEARTBEAT="4",
    )
    told, code, errors = results[0]
    assert (code, results[1][1]) == (0, 3), results
    assert (told["first"], told["alive"], told["here"]) == (4, [0], 6), errors
    assert "UNAVAILABLE: process 1 has closed the connection" in told["error"]


def test_the_other_process_fails():
    """On the tile engine. A callback raises in process 1; process 0 learns why."""
    results = run_pair(
        """
        def check(value):
            if process == 1 and value.sum() > 1:
                raise ValueError("no good")
            return value

        def body(v):
            return jax.lax.psum(jax.pure_callback(check, jax.ShapeDtypeStruct(v.shape, v.dtype), v), "i")

        mesh = Mesh(np.array(jax.devices("ipu")), ("i",))
        program = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P()))
        good = program(everywhere()).addressable_shards[0].data.tolist()
        told = error_of(lambda: program(2 * everywhere()))
        tell(good=good, error=told)
        """,
        LEAVE_TOGETHER,
        JAX_IPU_MODEL_EXECUTION="tile",
    )
    assert [code for _, code, _ in results] == [0, 0], results
    assert [told["good"] for told, _, _ in results] == [[4], [4]]
    assert "no good" in results[1][0]["error"]
    assert "ABORTED: process 1 gave up" in results[0][0]["error"] and "no good" in results[0][0]["error"]


def test_different_programs_are_noticed():
    results = run_pair(
        """
        def product(v): return v.sum() * 2
        def total(v): return v.sum()
        tell(error=error_of(lambda: jax.jit([total, product][process])(everywhere())))
        """,
        LEAVE_TOGETHER,
    )
    assert [code for _, code, _ in results] == [0, 0], results
    text = " ".join(told["error"] for told, _, _ in results)
    assert "in the same order" in text and "'jit_total'" in text and "'jit_product'" in text


def test_a_process_that_does_not_come():
    results = run_pair(
        """
        import xoscar.collective.xoscar_pygloo  # takes seconds when it is first imported
        jax._src.distributed.global_state.client.wait_at_barrier("start", 60_000)
        total = jax.jit(lambda v: v.sum())
        float(total(everywhere()))
        if process == 1:
            time.sleep(60)  # jaxlib ends it when the first process leaves
        tell(error=error_of(lambda: total(everywhere())))
        """,
        LEAVE,
        JAX_IPU_PROCESS_TIMEOUT="8",
    )
    assert results[0][1] == 0, results
    assert "DEADLINE_EXCEEDED: process 1 did not take part in a collective within 8 s" in results[0][0]["error"]


def test_without_the_transport():
    """Topology and programs without collectives work in every process; other errors name the extra."""
    results = run_pair(
        """
        if process == 1:
            sys.modules["xoscar"] = None  # as if it were not installed
        doubled = jax.jit(lambda v: v * 2)(everywhere())
        tell(
            devices=len(jax.devices("ipu")),
            doubled=[s.data.tolist() for s in doubled.addressable_shards],
            local=float(jnp.ones(3).sum()),
            error=error_of(lambda: jax.jit(lambda v: v.sum())(everywhere())),
        )
        """
    )
    assert [code for _, code, _ in results] == [0, 0], results
    for told, _, _ in results:
        assert told["devices"] == 4 and told["doubled"] == [[2], [2]] and told["local"] == 3
        assert "process 1 has no transport for that: pip install 'jax_ipu[distributed]'" in told["error"]


def test_processes_with_different_ipus_are_refused():
    results = run_pair(
        'tell(error=error_of(lambda: jax.devices("ipu")))', LEAVE_TOGETHER, each=({}, {"JAX_IPU_MODEL_NUM_TILES": "8"})
    )
    texts = [told["error"] for told, _, _ in results]
    assert any("process 0 has ipu2:16" in text and "JAX_IPU_MODEL_NUM_TILES" in text for text in texts), results


def test_script_of_the_documentation():
    """With three processes, so that each one communicates with two others."""
    text = (TESTS.parent / "docs" / "multi_ipu.md").read_text()
    (script,) = re.findall(r"```py\n(.*?)```", text, re.S)
    port = free_port()

    def start(process):
        return run(f"import sys\nsys.argv[1:] = ['localhost:{port}', '3', '{process}']\n{script}", **COMMON)

    with ThreadPoolExecutor(3) as pool:
        ended = list(pool.map(start, range(3)))
    assert [done.returncode for done in ended] == [0] * 3, ended
    assert [done.stdout for done in ended] == [f"{process} 6 IPUs, mean 4.5\n" for process in range(3)]
