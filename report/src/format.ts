// The report's JSON, as docs/report_format.md describes it. Anything may be null or absent in a program that does not
// fit, so readers go through model.ts, which has an answer for what is missing.

/** Numbers as they are, or run-length coded: value, run length, value, run length, ... */
export type Column = (number | null)[] | { rle: (number | null)[] };

/** Rows of columns; a row that equals an earlier one names it. */
export interface MatrixData {
  rows: number;
  columns: number;
  data: (Column | { same: number })[];
}

export interface FloorPlan {
  columns: number;
  rows: number;
  tiles: number[];
  source?: string | null;
}

export interface Chip {
  name: string;
  num_tiles: number;
  tile_memory_bytes: number;
  clock_hz: number;
  workers_per_tile: number;
  peak_flops: number | null;
  host_link_bytes_per_second: number | null;
  ipu_link_bytes_per_second: number | null;
  exchange_bytes_per_cycle: number | null;
  floor_plan: FloorPlan | null;
}

export type Estimate = Record<string, number | string | null | undefined>;

export interface Accuracy {
  kind: string;
  applies_to: string[];
  /** Of the memory of a tile. */
  categories?: string[];
  cycles: number | null;
  memory: number | null;
  basis: string;
}

export interface SourceFile {
  path: string;
  lines: string[] | null;
}

export interface Operation {
  id: number;
  name: string;
  kind: string;
  scope: string | null;
  source: number | null;
  line: number | null;
  executions: number;
  flops: number;
  // null: not planned.
  codelets: string[] | null;
  cycles: number | null;
  compute_cycles: number | null;
  exchange_cycles: number | null;
  sync_cycles: number | null;
  exchange_bytes: number | null;
  code_bytes: number | null;
  tiles: number | null;
  utilisation: number | null;
  // Reports of earlier versions do not have these.
  title?: string;
  /** The part of exchange_cycles over IPU-Links. */
  link_cycles?: number | null;
  backward?: boolean;
  shape?: string;
  layer?: number | null;
  function?: number | null;
  stack?: number[];
}

/** A name scope or a function, with the sums over what is in it and below it. */
export interface CostNode {
  id: number;
  parent: number | null;
  name: string;
  operations: number[];
  cycles: number | null;
  compute_cycles: number | null;
  exchange_cycles: number | null;
  link_cycles: number | null;
  sync_cycles: number | null;
  exchange_bytes: number | null;
  flops: number | null;
  code_bytes: number | null;
  variable_bytes: number | null;
}

export interface Frame {
  path: string;
  line: number;
  function: string;
  library: boolean;
}

export interface Steps {
  operation: Column;
  name: (string | null)[];
  executions: Column;
  node: Column;
  // null: not planned.
  compute: Column | null;
  exchange: Column | null;
  sync: Column | null;
  exchange_bytes: Column | null;
  active_tiles: Column | null;
  mean_compute: Column | null;
  /** The part of `compute` in which tiles copy their own elements around vertices. */
  local_copies: Column | null;
  /** The part of exchange over IPU-Links. */
  links?: Column | null;
  /** 0: a branch of a conditional that the cycles of the program do not count. */
  counted?: Column | null;
  /** "operation", "decision", "stream in", "stream out" or "host call". */
  kind?: string[] | null;
  link_bytes?: Column | null;
}

export interface TreeNode {
  id: number;
  parent: number | null;
  kind: string;
  label: string;
  trips: number | null;
  operation: number | null;
  first_step: number | null;
  last_step: number | null;
  cycles: number | null;
}

export interface Variable {
  id: number;
  name: string;
  dtype: string;
  shape: number[];
  role: string;
  lasting: boolean;
  bytes: number;
  max_tile_bytes: number;
  tiles: number;
  first_step: number | null;
  last_step: number | null;
  last_use_step: number | null;
  tile_bytes: Column | { same: number } | null;
  /** The pieces in which it is live: first step, last step, first step, ... */
  ranges?: number[] | null;
  argument: string | null;
  title?: string;
  source: number | null;
  line: number | null;
  layer?: number | null;
}

export interface Liveness {
  steps: number;
  always_live_bytes: number;
  not_always_live: Column;
  max_tile: Column;
  fullest: Column;
}

export interface Memory {
  peak_step: number | null;
  categories: Record<string, Column | null>;
  total: Column;
  gaps: Column | null;
  /** By tile an index into `lists`, or -1; lists of variable, address, variable, address, ... */
  addresses?: { of_tile: Column; lists: number[][] };
}

export interface Exchange {
  steps: number[];
  sent: MatrixData | null;
  received: MatrixData | null;
  /** Per entry of steps: from, to, bytes, from, to, bytes, ... between groups of tiles. */
  pairs: (number[] | { same: number })[] | null;
  group_tiles: number;
  /** Bytes received from other IPUs, by step of the program. */
  between_ipus: Column | null;
}

export interface Stream {
  name: string;
  direction: "in" | "out";
  bytes: number;
  when: string;
}

export interface Insight {
  id: string;
  severity: "info" | "advice" | "problem";
  title: string;
  detail: string;
  action: string | null;
  saving: { cycles?: number | null; bytes?: number | null; fullest_tile_bytes?: number | null } | null;
  operations: number[];
  variables: number[];
  tiles: number[];
  /** What helps a program that does not fit, and what was not tried. */
  helps?: string[];
  untried?: string[];
  /** Of another batch: the present and the other value, for each row. */
  rows?: { batch: number[]; cycles: number[]; seconds: number[] };
  /** Bytes that are always live, by part. */
  parts?: Record<string, number>;
}

/** Events of one thread of the host, or of one kind on the chip. Times are nanoseconds since the recording began. */
export interface RunLine {
  name: string;
  clock: "measured" | "modelled";
  device: number | null;
  names: string[];
  kinds: string[];
  /** Of each event an index into `names` and `kinds`; those that contain others come before them. */
  event: number[];
  begin: number[];
  duration: number[];
}

/** A profile of the program: the host as measured, the chip as modelled. */
export interface Run {
  source: string;
  duration: number;
  left_out: number;
  runs: { device: number; cycles: number; begin: number; duration: number; host_begin: number; host_duration: number }[];
  lines: RunLine[];
}

/** What each IPU of a pipeline does, in cycles. */
export interface Schedule {
  /** "loop", or the schedule of a pipeline of several programs. */
  kind: string;
  stages: number;
  batches: number;
  executions: number;
  duration: number;
  /** The part of the time of all IPUs in which they wait. */
  idle: number;
  rows: { ipu: number; stage: number; work: number; links: number; other: number; idle: number }[];
  /** One for each of `rows`; of a micro-batch the name is its number. */
  lines: RunLine[];
}

export interface ReportData {
  format: string;
  version: number;
  jax_ipu: string;
  program: { name: string; target: string; num_ipus: number; fits: boolean; reason: string | null; batch?: number | null };
  chip: Chip;
  estimate: Estimate;
  accuracy: Accuracy[];
  sources: SourceFile[];
  operations: Operation[];
  steps: Steps | null;
  tile_compute: MatrixData | null;
  tree: TreeNode[];
  variables: Variable[];
  liveness: Liveness | null;
  memory: Memory | null;
  tile_memory: MatrixData | null;
  exchange: Exchange | null;
  layers?: CostNode[];
  functions?: CostNode[];
  frames?: Frame[];
  host: { streams: Stream[] | null } | null;
  insights: Insight[];
  run?: Run | null;
  schedule?: Schedule | null;
  phases: { name: string; seconds: number }[];
}
