// Reports that look like real ones, the same on every run: for tests, and for looking at what no real program shows.

function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

function rle(values) {
  const runs = [];
  for (const value of values) {
    if (runs.length && runs[runs.length - 2] === value) runs[runs.length - 1]++;
    else runs.push(value, 1);
  }
  return runs.length < values.length ? { rle: runs } : [...values];
}

function matrix(rows, columns) {
  const seen = new Map();
  return {
    rows: rows.length,
    columns,
    data: rows.map((row, index) => {
      const column = rle(row);
      const key = JSON.stringify(column);
      if (seen.has(key)) return { same: seen.get(key) };
      seen.set(key, index);
      return column;
    }),
  };
}

const kinds = [
  ["poplin::matMul", "dot_general", ["poplin::ConvPartial1x1Out<half,float>"]],
  ["popops::map", "fusion", ["popops::BinaryOp2D<ADD,float>"]],
  ["popops::reduce", "reduce", ["popops::ReducePartialsEqualSize<float>"]],
  ["poplin::convolution", "conv", ["poplin::ConvPartialnx1<half,float>"]],
  ["poplar::Copy", "copy", []],
  ["popops::multiSlice", "gather", ["popops::MultiSlice<float>"]],
];

const source = `import jax
import jax.numpy as jnp


def layer(w, b, x):
    return jax.nn.relu(x @ w + b)


def loss(parameters, images, labels):
    x = images
    for w, b in parameters[:-1]:
        x = layer(w, b, x)
    w, b = parameters[-1]
    logits = x @ w + b
    return -jnp.mean(jax.nn.log_softmax(logits)[jnp.arange(len(labels)), labels])


@jax.jit
def step(parameters, images, labels):
    value, gradients = jax.value_and_grad(loss)(parameters, images, labels)
    return jax.tree.map(lambda p, g: p - 0.1 * g, parameters, gradients), value
`.split("\n");
const lines = [6, 6, 6, 12, 14, 15, 20, 21];

/** A report of `steps` supersteps on `tiles` tiles. Options: name, chip, fits, ipus, seed, scale (of the cycles), bare. */
export function synthetic({ name = "step", chip = "bow", tiles = 64, steps = 60, fits = true, ipus = 1, seed = 1, scale = 1, bare = false } = {}) {
  const next = random(seed);
  const pick = (low, high) => Math.floor(low + next() * (high - low));
  const capacity = 638_976;
  const operationCount = bare ? 0 : Math.max(6, Math.floor(steps / 4));
  const operations = Array.from({ length: operationCount }, (_, id) => {
    const [kind, label, codelets] = kinds[id % kinds.length];
    return {
      id, name: `${label}.${id}`, kind, codelets, scope: `jit(${name})/layer${Math.floor(id / 6)}/${label}`,
      source: id % 7 === 6 ? null : 0, line: id % 7 === 6 ? null : lines[id % lines.length], executions: 0, cycles: 0, compute_cycles: 0,
      exchange_cycles: 0, sync_cycles: 0, exchange_bytes: 0, flops: id % 6 === 4 ? 0 : pick(1e5, 5e7), code_bytes: pick(200, 9000), tiles: 0, utilisation: null,
    };
  });
  const n = bare ? 0 : steps;
  const columns = { operation: [], name: [], executions: [], compute: [], exchange: [], sync: [], exchange_bytes: [], node: [], active_tiles: [], mean_compute: [] };
  const compute = [];
  const bodyStart = Math.floor(n * 0.3);
  const bodyEnd = Math.floor(n * 0.8);
  for (let step = 0; step < n; step++) {
    const operation = Math.min(operationCount - 1, Math.floor((step * operationCount) / n));
    const kind = operation % kinds.length;
    const copy = kind === 4;
    const base = copy ? 0 : Math.round(pick(200, 6000) * (kind === 0 || kind === 3 ? 6 : 1) * scale);
    const active = copy ? 0 : kind === 2 ? Math.max(1, Math.floor(tiles / 3)) : Math.floor(tiles * (0.7 + 0.3 * next()));
    const shape = pick(1, 5);
    const width = Math.max(1, Math.floor(tiles / 12));
    const row = Array.from({ length: tiles }, (_, tile) => (tile >= active ? 0 : Math.round(base * (1 - (0.5 * ((Math.floor(tile / width) * shape) % 7)) / 7))));
    const slowest = row.reduce((a, b) => Math.max(a, b), 0);
    compute.push(row);
    columns.operation.push(operation);
    columns.name.push(operations[operation].codelets[0]?.split("<")[0] ?? null);
    columns.executions.push(step >= bodyStart && step < bodyEnd ? 10 : 1);
    columns.compute.push(slowest);
    columns.exchange.push(copy ? pick(800, 4000) : step % 3 === 0 ? pick(80, 1600) : 0);
    columns.sync.push(126);
    columns.exchange_bytes.push(columns.exchange[step] * 4 * Math.floor(tiles / 2));
    columns.active_tiles.push(active);
    columns.mean_compute.push(row.reduce((a, b) => a + b, 0) / tiles);
  }
  for (let step = 0; step < n; step++) {
    const one = operations[columns.operation[step]];
    const times = columns.executions[step];
    one.executions = times;
    one.compute_cycles += columns.compute[step] * times;
    one.exchange_cycles += columns.exchange[step] * times;
    one.sync_cycles += columns.sync[step] * times;
    one.exchange_bytes += columns.exchange_bytes[step] * times;
    one.tiles = Math.max(one.tiles, columns.active_tiles[step]);
  }
  const sum = (key) => operations.reduce((all, one) => all + one[key], 0);
  const clock = chip === "bow" ? 1.85e9 : 1.325e9;
  const peak = tiles * clock * 128;
  for (const one of operations) {
    one.cycles = one.compute_cycles + one.exchange_cycles + one.sync_cycles;
    one.utilisation = one.cycles ? Math.min(0.9, one.flops / (one.cycles * tiles * 128)) : null;
  }

  const tree = [];
  const node = (parent, kind, label, more = {}) => tree.push({ id: tree.length, parent, kind, label, trips: null, operation: null, first_step: null, last_step: null, cycles: 0, ...more }) - 1;
  if (n) {
    const root = node(null, "sequence", "main");
    let group = null;
    let open = "";
    for (let step = 0; step < n; step++) {
      const part = step < bodyStart ? "before" : step < bodyEnd ? "loop" : "after";
      if (part !== open) {
        open = part;
        group = part === "loop" ? node(root, "repeat", "training steps", { trips: 10 }) : node(root, "sequence", part === "before" ? "forward" : "update");
      }
      const operation = columns.operation[step];
      const last = tree[tree.length - 1];
      const id = last.operation === operation && last.parent === group ? last.id : node(group, operations[operation].kind === "poplar::Copy" ? "copy" : "operation", operations[operation].name, { operation, first_step: step });
      columns.node.push(id);
      const cost = (columns.compute[step] + columns.exchange[step] + columns.sync[step]) * columns.executions[step];
      for (let up = id; up !== null; up = tree[up].parent) {
        tree[up].cycles += cost;
        tree[up].first_step ??= step;
        tree[up].last_step = step;
      }
    }
  }

  const variables = [];
  const spread = (bytes, from, to) => Array.from({ length: tiles }, (_, tile) => (tile >= from && tile < to ? Math.floor(bytes / (to - from)) : 0));
  const variable = (label, perTile, role, lasting, from, to, first, last, used, more = {}) => {
    const on = spread(perTile * (to - from), from, to);
    variables.push({
      id: variables.length, name: label, dtype: "float32", shape: [pick(1, 64), pick(16, 512)], role, lasting, bytes: on.reduce((a, b) => a + b, 0), max_tile_bytes: Math.max(...on),
      tiles: to - from, first_step: n ? (lasting ? 0 : first) : null, last_step: n ? (lasting ? n - 1 : last) : null, last_use_step: n ? used : null, tile_bytes: rle(on), argument: null, source: 0, line: lines[variables.length % lines.length], ...more,
    });
  };
  for (let i = 0; i < 6; i++) variable(`w${i}`, (fits ? 24_000 : 140_000) + 4000 * i, "variable", true, 0, i % 2 ? tiles : Math.floor(tiles * 0.8), 0, 0, Math.max(0, n - 1), { argument: `parameters[${i >> 1}][${i & 1}]` });
  variable("iota", 1024, "constant", true, 0, Math.max(1, tiles >> 2), 0, 0, Math.max(0, n - 1));
  for (let i = 0; i < Math.min(n, 400); i++) {
    const first = Math.floor((i * n) / Math.min(n, 400));
    const last = Math.min(n - 1, first + pick(1, Math.max(3, n / 8)));
    variable(`${i % 5 === 3 ? "exchange" : "t"}${i}`, pick(500, 30_000), i % 5 === 3 ? "exchange buffer" : "temporary", false, pick(0, tiles >> 2), tiles - pick(0, tiles >> 3), first, last, i % 9 === 4 ? Math.max(first, last - pick(1, 4)) : last);
  }
  const notAlways = new Float64Array(n);
  const live = Array.from({ length: n }, () => new Float64Array(tiles));
  const lasting = new Float64Array(tiles);
  const temporaries = new Float64Array(tiles);
  const buffers = new Float64Array(tiles);
  const constants = new Float64Array(tiles);
  const kept = new Float64Array(tiles);
  const expand = (column) => (Array.isArray(column) ? column : column.rle.flatMap((value, i) => (i % 2 ? [] : new Array(column.rle[i + 1]).fill(value))));
  for (const one of variables) {
    const on = expand(one.tile_bytes);
    if (one.lasting) on.forEach((value, tile) => ((lasting[tile] += value), ((one.role === "constant" ? constants : kept)[tile] += value)));
    else for (let step = one.first_step; step <= one.last_step; step++) on.forEach((value, tile) => (live[step][tile] += value));
  }
  let peakStep = 0;
  let peakBytes = 0;
  const maxTile = [];
  const fullest = [];
  live.forEach((row, step) => {
    let most = 0;
    let at = 0;
    row.forEach((value, tile) => {
      notAlways[step] += value;
      row[tile] = value + lasting[tile];
      temporaries[tile] = Math.max(temporaries[tile], Math.round(value * 0.8));
      buffers[tile] = Math.max(buffers[tile], Math.round(value * 0.2));
      if (row[tile] > most) [most, at] = [row[tile], tile];
    });
    maxTile.push(most);
    fullest.push(at);
    if (most > peakBytes) [peakBytes, peakStep] = [most, step];
  });
  const code = Float64Array.from({ length: tiles }, (_, tile) => 9000 + 500 * (tile % 3));
  const state = new Float64Array(tiles).fill(2200);
  const total = Float64Array.from({ length: tiles }, (_, tile) => kept[tile] + constants[tile] + temporaries[tile] + buffers[tile] + code[tile] + state[tile]);
  const most = total.reduce((a, b) => Math.max(a, b), 0);

  const exchanging = columns.exchange.flatMap((value, step) => (value > 0 ? [step] : []));
  const groupTiles = Math.ceil(tiles / 16);
  const groups = Math.ceil(tiles / groupTiles);
  const perTile = (step, reach) => Array.from({ length: tiles }, (_, tile) => (tile % 2 === reach ? Math.round((2 * columns.exchange_bytes[step]) / tiles) : 0));
  const cycles = n ? sum("cycles") : null;
  const phaseTotal = (key) => (n ? sum(key) : null);
  const flops = n ? sum("flops") : null;
  const seconds = cycles === null ? null : cycles / clock;
  return {
    format: "jax_ipu report", version: 1, jax_ipu: "0.1.0",
    program: { name: `jit_${name}`, target: `${chip}:${tiles}`, num_ipus: ipus, fits, reason: fits ? null : `The variables need ${Math.round(most / 1024)} KiB on tile 0, which has ${Math.round(capacity / 1024)} KiB. Use a smaller batch, or more IPUs.` },
    chip: {
      name: chip, num_tiles: tiles, tile_memory_bytes: capacity, clock_hz: clock, workers_per_tile: 6, peak_flops: peak, host_link_bytes_per_second: 16e9, ipu_link_bytes_per_second: 64e9, exchange_bytes_per_cycle: 4,
      floor_plan: { columns: Math.ceil(tiles / (tiles > 200 ? 32 : 8)), rows: tiles > 200 ? 32 : 8, tiles: Array.from({ length: tiles }, (_, tile) => [Math.floor(tile / (tiles > 200 ? 32 : 8)), tile % (tiles > 200 ? 32 : 8)]).flat(), source: "Pairs of tiles column by column: no public source gives the physical plan." },
    },
    estimate: {
      name: `jit_${name}`, target: `${chip}:${tiles}`, num_ipus: ipus, fits, reason: null, tile_memory_bytes: capacity, cycles, compute_cycles: phaseTotal("compute_cycles"), exchange_cycles: phaseTotal("exchange_cycles"), sync_cycles: phaseTotal("sync_cycles"),
      unknown_trip_counts: 0, seconds, host_bytes_in: n ? 401_408 : null, host_bytes_out: n ? 4 : null, kept_bytes: n ? 0 : null, state_bytes: n ? 407_080 : null, host_seconds: n ? 2.5e-5 : null, link_bytes: n ? (ipus > 1 ? 1_234_567 : 0) : null, flops, utilisation: flops === null ? null : flops / seconds / peak,
      fullest_tile_bytes: most, total_bytes: total.reduce((a, b) => a + b, 0),
    },
    accuracy: [
      { kind: "products", applies_to: ["poplin::matMul"], cycles: 0.08, memory: null, basis: "Median over 17 dense products measured on Bow (PopSparse)." },
      { kind: "elementwise", applies_to: ["popops::map"], cycles: 0.1, memory: null, basis: "Six vertices measured on Mk2 (tessellate-ipu)." },
    ],
    sources: [{ path: "/home/user/mnist/train.py", lines: source }],
    operations,
    steps: n ? { ...columns, operation: rle(columns.operation), executions: rle(columns.executions), sync: rle(columns.sync) } : null,
    tile_compute: n ? matrix(compute, tiles) : null,
    tree,
    variables,
    liveness: n ? { steps: n, always_live_bytes: lasting.reduce((a, b) => a + b, 0), not_always_live: rle(notAlways), max_tile: rle(maxTile), fullest: rle(fullest) } : null,
    memory: { peak_step: n ? peakStep : null, categories: { variables: rle(kept), temporaries: rle(temporaries), exchange_buffers: rle(buffers), constants: rle(constants), vertex_state: rle(state), code: rle(code) }, total: rle(total), gaps: fits ? rle(Float64Array.from(total, (value) => Math.round(value * 0.02))) : null },
    tile_memory: n ? matrix(live, tiles) : null,
    exchange: n
      ? {
          steps: exchanging, sent: matrix(exchanging.map((step) => perTile(step, 0)), tiles), received: matrix(exchanging.map((step) => perTile(step, 1)), tiles), group_tiles: groupTiles,
          pairs: exchanging.map((step) => Array.from({ length: groups }, (_, from) => [from, (from + 1 + (step % 3)) % groups, Math.round(columns.exchange_bytes[step] / groups)]).flat()),
          between_ipus: rle(columns.exchange.map((value, step) => (ipus > 1 && value && step % 2 === 0 ? 4096 : 0))),
        }
      : null,
    host: { streams: n ? [{ name: "images", direction: "in", bytes: 401_408, when: "each call" }, { name: "parameters", direction: "in", bytes: 407_080, when: "once" }, { name: "loss", direction: "out", bytes: 4, when: "each call" }] : [] },
    insights: [
      ...(fits ? [] : [{ id: "fit", severity: "problem", title: "The weights do not fit", detail: "Six variables are kept on every tile.", action: "Use float16, or spread the model over two IPUs.", saving: { cycles: null, bytes: Math.round(most * tiles * 0.5), fullest_tile_bytes: Math.round(most * 0.5) }, operations: [], variables: [5, 4], tiles: [0] }]),
      { id: "half-partials", severity: "advice", title: "Products keep float32 partial sums", detail: "Partial sums in float16 take half the memory and half the exchange.", action: "Set compiler_options={'partials_type': 'half'}.", saving: { cycles: n ? Math.round(cycles * 0.06) : null, bytes: 1_200_000, fullest_tile_bytes: 20_000 }, operations: n ? [0] : [], variables: [], tiles: [] },
      { id: "imbalance", severity: "info", title: "Some steps use a third of the tiles", detail: "Reductions run where their operands are.", action: null, saving: null, operations: n ? [2] : [], variables: [], tiles: [0] },
    ],
    phases: [{ name: "passes", seconds: 0.12 }, { name: "lowering", seconds: 0.31 }, { name: "planning", seconds: 0.54 }],
  };
}

/** A report with layers and functions, which synthetic ones have not: three of each, one in another, with every third operation and variable. */
export function layered(report) {
  const nodes = (names) => names.map(([name, parent], id) => ({ ...report.operations[0], id, parent, name, operations: [], variable_bytes: 1 }));
  return {
    ...report,
    layers: nodes([["block", null], ["attention, 8 heads", 0], ["head", null]]),
    functions: nodes([["train (train.py)", null], ["loss (train.py)", 0], ["update (train.py)", 0]]),
    operations: report.operations.map((one, id) => ({ ...one, layer: id % 3, function: (id + 1) % 3 })),
    variables: report.variables.map((one, id) => ({ ...one, layer: id % 3 })),
  };
}
