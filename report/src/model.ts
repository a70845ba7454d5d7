// One report, decoded, with the questions that several views ask.
import { decode, Matrix } from "./decode";
import type { Accuracy, Column, CostNode, Operation, ReportData, TreeNode, Variable } from "./format";
import { brief, total } from "./numbers";
import { Pyramid } from "./pyramid";

function lazy<T>(make: () => T): () => T {
  let made: { value: T } | null = null;
  return () => (made ??= { value: make() }).value;
}

/** Cycles by phase; exchange is that between tiles of an IPU, links that between IPUs. */
export interface Phases {
  compute: number;
  exchange: number;
  links: number;
  sync: number;
}

/** The phases with their titles, in the order in which a step has them. They are colours of style/base.css as well. */
export const phases: readonly (readonly [keyof Phases, string])[] = [["exchange", "Exchange"], ["links", "IPU-Links"], ["compute", "Compute"], ["sync", "Sync"]];

type WithCycles = Pick<CostNode, "compute_cycles" | "exchange_cycles" | "sync_cycles"> & { link_cycles?: number | null };

/** The phases of an operation, a layer or a function. */
export function phasesOf(one: WithCycles): Phases {
  const links = one.link_cycles ?? 0;
  return { compute: one.compute_cycles ?? 0, exchange: (one.exchange_cycles ?? 0) - links, links, sync: one.sync_cycles ?? 0 };
}

export interface Category {
  key: string;
  title: string;
  colour: string;
  values: Float64Array;
}

// The categories in the order they are stacked: [key, title, colour of the theme].
const categories: [string, string, string][] = [
  ["variables", "Variables", "variables"],
  ["constants", "Constants", "constants"],
  ["temporaries", "Temporaries", "temporaries"],
  ["exchange_buffers", "Exchange buffers", "exchange"],
  ["vertex_state", "Vertex state", "vertex"],
  ["code", "Code", "code"],
  ["stack", "Stack", "stack"],
];

export class Program {
  readonly operations: Operation[];
  readonly variables: Variable[];
  readonly tree: TreeNode[];
  readonly stepCount: number;
  readonly tileCount: number;
  readonly capacity: number;
  readonly steps;
  private readonly tileBytesCache = new Map<number, Float64Array>();

  constructor(readonly data: ReportData) {
    const shorter = <T extends { name: string; title?: string }>(list: T[] | null) => (list ?? []).map((one) => ({ ...one, name: one.title ?? brief(one.name) }));
    this.operations = shorter(data.operations);
    this.variables = shorter(data.variables);
    this.tree = (data.tree ?? []).map((one) => ({ ...one, label: brief(one.label) }));
    this.tileCount = data.chip.num_tiles;
    this.capacity = data.chip.tile_memory_bytes;
    const steps = data.steps;
    const n = (this.stepCount = steps?.name?.length ?? 0);
    this.steps = {
      name: steps?.name ?? [],
      // -1: a decision of a loop, or a transfer between host and tiles.
      operation: decode(steps?.operation, n, -1),
      counted: decode(steps?.counted, n, 1),
      kind: steps?.kind ?? [],
      link_bytes: decode(steps?.link_bytes, n),
      executions: decode(steps?.executions, n),
      compute: decode(steps?.compute, n),
      exchange: decode(steps?.exchange, n),
      links: decode(steps?.links, n),
      sync: decode(steps?.sync, n),
      exchange_bytes: decode(steps?.exchange_bytes, n),
      node: decode(steps?.node, n),
      active_tiles: decode(steps?.active_tiles, n),
      mean_compute: decode(steps?.mean_compute, n),
      local_copies: decode(steps?.local_copies, n),
    };
  }

  /** Whether the costs of operations are known. */
  get planned(): boolean {
    return !!this.data.steps?.compute;
  }

  /** Why there are no operations, or no costs of them. */
  get nothing(): string {
    return this.data.program.fits ? "The program computes nothing on the tiles." : "The program does not fit, so its operations were not planned.";
  }

  get name(): string {
    return this.data.program.name;
  }

  get target(): string {
    const { target, num_ipus } = this.data.program;
    return num_ipus > 1 ? `${num_ipus} × ${target}` : target;
  }

  estimate(key: string): number | null {
    const value = this.data.estimate?.[key];
    return typeof value === "number" ? value : null;
  }

  /** Cycles of one execution of a step. */
  stepCycles(step: number): number {
    return this.steps.compute[step] + this.steps.exchange[step] + this.steps.sync[step];
  }

  /** How often a call runs a step, by the count of the estimate. */
  times(step: number): number {
    return this.steps.executions[step] * this.steps.counted[step];
  }

  /** What a node of a tree is called: an operation by its title, which says what tells it from others of its line. */
  labelOf(node: { label: string; operation: number | null }): string {
    return (node.operation === null ? undefined : this.operations[node.operation]?.name) ?? node.label;
  }

  operationOf(step: number): Operation | undefined {
    return this.operations[this.steps.operation[step]];
  }

  stepTitle(step: number): string {
    const name = this.steps.name[step];
    const operation = this.operationOf(step)?.name;
    return operation ? (name && name !== operation ? `${operation} · ${name}` : operation) : (name ?? this.steps.kind[step] ?? `step ${step}`);
  }

  private readonly byOperation = lazy(() => {
    const lists = new Map<number, number[]>();
    this.steps.operation.forEach((operation, step) => {
      const list = lists.get(operation);
      if (list) list.push(step);
      else lists.set(operation, [step]);
    });
    return lists;
  });

  stepsOf(operation: number): number[] {
    return this.byOperation().get(operation) ?? [];
  }

  /** The step of an operation that costs most. */
  mainStep(operation: number): number | null {
    let best: number | null = null;
    for (const step of this.stepsOf(operation)) {
      if (best === null || this.stepCycles(step) * this.times(step) > this.stepCycles(best) * this.times(best)) best = step;
    }
    return best;
  }

  /** The phases of one execution of a step. */
  stepPhases(step: number): Phases {
    const { compute, exchange, links, sync } = this.steps;
    return { compute: compute[step], exchange: exchange[step] - links[step], links: links[step], sync: sync[step] };
  }

  readonly totalCycles = lazy(() => this.estimate("cycles") ?? total(this.operations, (one) => one.cycles ?? 0));

  /** The phases of one call. */
  readonly totalPhases = lazy((): Phases => {
    const links = total(this.steps.links, (cycles, step) => cycles * this.times(step));
    const of = (key: string) => this.estimate(`${key}_cycles`) ?? 0;
    return { compute: of("compute"), exchange: of("exchange") - links, links, sync: of("sync") };
  });

  /** Seconds of a call with new arguments: on the chip, and over the host link where that is not beside it. */
  readonly callSeconds = lazy((): number | null => {
    const [chip, host] = [this.estimate("seconds"), this.estimate("host_seconds")];
    return chip === null || host === null ? null : chip + host - (this.estimate("overlapped_seconds") ?? 0);
  });

  /** The layers, or the functions, from the outermost to a node. */
  pathOf(nodes: CostNode[] | undefined, id: number | null | undefined): string[] {
    const names: string[] = [];
    for (let node = id === null || id === undefined ? undefined : nodes?.[id]; node; node = node.parent === null ? undefined : nodes?.[node.parent]) names.unshift(node.name);
    return names;
  }

  layerOf(one: { layer?: number | null } | undefined): string {
    return this.pathOf(this.data.layers, one?.layer).join(" / ");
  }

  readonly bySize = lazy(() => [...this.operations].sort((a, b) => (b.cycles ?? 0) - (a.cycles ?? 0)));

  readonly categories = lazy((): Category[] => {
    const found = this.data.memory?.categories ?? {};
    const named = categories.filter(([key]) => found[key]);
    const others = Object.keys(found).filter((key) => !categories.some(([one]) => one === key));
    return [...named, ...others.map((key): [string, string, string] => [key, key.replaceAll("_", " "), "stack"])].map(
      ([key, title, colour]) => ({ key, title, colour, values: decode(found[key], this.tileCount) }),
    );
  });

  /** The categories of which nothing is known, because the program was not planned. */
  readonly unknownCategories = lazy(() => categories.filter(([key]) => this.data.memory?.categories[key] === null));

  readonly tileTotals = lazy((): Float64Array | null => {
    const memory = this.data.memory;
    if (memory?.total) return decode(memory.total, this.tileCount);
    const all = this.categories();
    if (!all.length) return null;
    return Float64Array.from({ length: this.tileCount }, (_, tile) => total(all, (one) => one.values[tile]));
  });

  readonly gaps = lazy(() => (this.data.memory?.gaps ? decode(this.data.memory.gaps, this.tileCount) : null));

  /** The address of each variable on a tile, or null where the report does not say. */
  addresses(tile: number): Map<number, number> | null {
    const stored = this.data.memory?.addresses;
    const list = stored?.lists[decode(stored.of_tile, this.tileCount, -1)[tile]];
    return list ? new Map(list.flatMap((one, index) => (index % 2 ? [] : [[one, list[index + 1]]]))) : null;
  }

  readonly liveness = lazy(() => {
    const live = this.data.liveness;
    if (!live || !live.steps) return null;
    return {
      steps: live.steps,
      always: live.always_live_bytes ?? 0,
      notAlways: decode(live.not_always_live, live.steps),
      maxTile: decode(live.max_tile, live.steps),
      fullest: decode(live.fullest, live.steps),
    };
  });

  readonly tileCompute = lazy(() => (this.data.tile_compute?.rows ? new Matrix(this.data.tile_compute) : null));

  /** How busy each tile is in each step, as a part of the step's compute phase. */
  readonly computePyramid = lazy(() => {
    const matrix = this.tileCompute();
    return matrix && new Pyramid(matrix.rows, matrix.columns, matrix.quantise((step) => 1 / (this.steps.compute[step] || 1)));
  });

  tileBytes(variable: Variable): Float64Array {
    let values = this.tileBytesCache.get(variable.id);
    if (!values) {
      values = decode(this.columnOf(variable), this.tileCount);
      if (this.tileBytesCache.size > 64) this.tileBytesCache.clear();
      this.tileBytesCache.set(variable.id, values);
    }
    return values;
  }

  private columnOf(variable: Variable): Column | null {
    let column = variable.tile_bytes;
    while (column && "same" in column) column = this.variables[column.same]?.tile_bytes ?? null;
    return column;
  }

  /** Bytes on each tile while a step runs. */
  liveBytes(step: number): Float64Array {
    const matrix = this.data.tile_memory?.rows ? new Matrix(this.data.tile_memory) : null;
    if (matrix) return matrix.row(step);
    const sum = new Float64Array(this.tileCount);
    for (const one of this.categories()) if (one.key === "code" || one.key === "vertex_state" || one.key === "stack") one.values.forEach((value, tile) => (sum[tile] += value));
    for (const one of this.variables) if (this.isLive(one, step)) this.tileBytes(one).forEach((value, tile) => (sum[tile] += value));
    return sum;
  }

  /** Bytes of a variable on one tile, without decoding all tiles. */
  bytesOn(variable: Variable, tile: number): number {
    const column = this.columnOf(variable);
    if (!column) return 0;
    if (Array.isArray(column)) return column[tile] ?? 0;
    for (let i = 0, at = 0; i + 1 < column.rle.length; i += 2) {
      at += column.rle[i + 1] ?? 0;
      if (tile < at) return column.rle[i] ?? 0;
    }
    return 0;
  }

  isLive(variable: Variable, step: number): boolean {
    if (variable.lasting) return true;
    const { ranges } = variable;
    if (ranges?.length) return ranges.some((from, index) => index % 2 === 0 && from <= step && step <= ranges[index + 1]);
    return variable.first_step !== null && variable.last_step !== null && variable.first_step <= step && step <= variable.last_step;
  }

  /** Steps for which a variable is kept after its last use; 0 if it is not, or lasts. */
  keptTooLong(variable: Variable): number {
    const { lasting, last_step, last_use_step } = variable;
    return lasting || last_step === null || last_use_step === null ? 0 : Math.max(0, last_step - last_use_step);
  }

  /** Seconds of a call in which the chip waits for the host link, and for the streaming memory. */
  readonly waits = lazy(() => {
    const of = (key: string) => this.estimate(key) ?? 0;
    const streaming = of("streaming_seconds");
    const hidden = Math.min(streaming, of("overlapped_seconds"));
    return { host: of("host_seconds") - streaming - (of("overlapped_seconds") - hidden), streaming: streaming - hidden };
  });

  /** What limits the speed: the largest of the phases, the host link and the streaming memory. */
  readonly limit = lazy((): { what: string; share: number; sentence: string } | null => {
    const whole = this.estimate("cycles");
    const device = this.estimate("seconds");
    if (!whole) return null;
    const { host, streaming } = this.waits();
    if (device !== null && Math.max(host, streaming) > device) {
      const share = Math.max(host, streaming) / (host + streaming + device);
      return host > streaming
        ? { what: "Host link", share, sentence: "Moving arguments and results over the host link takes longer than the program on the chip, if the arguments are new in each call." }
        : { what: "Streaming memory", share, sentence: "Reading and writing host memory takes longer than the program on the chip. An estimate with the compiler option ipu_io_tiles says what reading ahead saves." };
    }
    const parts = this.totalPhases();
    const [key, what] = phases.reduce((a, b) => (parts[b[0]] > parts[a[0]] ? b : a));
    const sentence = {
      compute: "Most cycles are spent in vertices: look at the largest operations and at their tile balance.",
      exchange: "Most cycles move data between tiles: look at the Exchange view for who sends to whom.",
      links: "Most cycles move data between IPUs: look at what is sharded, and at the steps that receive from other IPUs.",
      sync: "Most cycles wait for all tiles between supersteps: the program has many small steps.",
    }[key];
    return { what, share: parts[key] / whole, sentence };
  });

  accuracyOf(kind: string): Accuracy | null {
    return (this.data.accuracy ?? []).find((one) => one.kind === kind || one.applies_to?.includes(kind)) ?? null;
  }

  private readonly errors = lazy(() => {
    let known = 0;
    let error = 0;
    let all = 0;
    for (const operation of this.operations) {
      const expected = this.accuracyOf(operation.kind)?.cycles ?? null;
      all += operation.cycles ?? 0;
      if (expected === null) continue;
      known += operation.cycles ?? 0;
      error += expected * (operation.cycles ?? 0);
    }
    return { share: all > 0 ? known / all : 0, error: known > 0 ? error / known : null };
  });

  /** The expected relative error of the program's cycles, and the share of the cycles for which one is known. */
  cyclesError(): { share: number; error: number | null } {
    return this.errors();
  }

  /** The expected relative error of the bytes on a tile, or on all, the share of them for which one is known, and which parts those are. */
  memoryError(tile: number | null = null): { share: number; error: number | null; known: string[] } {
    const bytes = (one: Category) => (tile === null ? total(one.values, (value) => value) : one.values[tile]);
    const expected = (one: Category) => (this.data.accuracy ?? []).find((entry) => entry.categories?.includes(one.key))?.memory ?? null;
    const parts = this.categories().map((one) => ({ title: one.title.toLowerCase(), bytes: bytes(one), error: expected(one) }));
    const known = parts.filter((one) => one.error !== null && one.bytes > 0);
    const sum = total(known, (one) => one.bytes);
    return { share: sum / (total(parts, (one) => one.bytes) || 1), error: sum ? total(known, (one) => (one.error ?? 0) * one.bytes) / sum : null, known: known.map((one) => one.title) };
  }

  /** Operations by "source:line". */
  readonly byLine = lazy(() => {
    const lines = new Map<string, Operation[]>();
    for (const operation of this.operations) {
      if (operation.source === null || operation.source === undefined || !operation.line) continue;
      const key = `${operation.source}:${operation.line}`;
      const list = lines.get(key);
      if (list) list.push(operation);
      else lines.set(key, [operation]);
    }
    return lines;
  });

  sourceOf(one: { source: number | null; line: number | null }): string | null {
    const file = one.source === null ? null : this.data.sources?.[one.source];
    if (!file) return null;
    return `${file.path.split("/").pop()}${one.line ? `:${one.line}` : ""}`;
  }
}
