// Layers of the model, rolled up: which of them a variable or an operation counts in, and the memory of each.
import type { CostNode, Variable } from "./format";
import type { Program } from "./model";

/** A layer with this share of the cycles is most of the model: what it consists of says more. */
const most = 0.7;

/** The outermost layers that tell parts of the model apart, below what most of it is in; `opened`: those that they stand for. */
export function outermost(program: Program): { level: CostNode[]; opened: CostNode[] } {
  const inside = new Map<number | null, CostNode[]>();
  for (const node of program.data.layers ?? []) inside.set(node.parent, [...(inside.get(node.parent) ?? []), node]);
  const opened: CostNode[] = [];
  const whole = program.totalCycles();
  let level = inside.get(null) ?? [];
  const frame = () => level.find((one) => inside.has(one.id) && (level.length === 1 || (one.cycles ?? 0) > most * whole));
  for (let node = frame(); node; node = frame()) {
    opened.push(node);
    level = level.flatMap((one) => (one === node ? inside.get(one.id)! : [one]));
  }
  return level.length < 2 ? { level: [], opened: [] } : { level, opened };
}

const colours = ["variables", "exchange", "constants", "temporaries", "vertex", "code"];

export interface LayerPart {
  title: string;
  colour: string;
  values: Float64Array;
}

/** What is live on each tile in a step, or all that is listed without one, by the layers that hold most; then what is in none of these. */
export function memoryByLayer(program: Program, step: number | null): LayerPart[] {
  const { level } = outermost(program);
  const sums = new Map<number, LayerPart & { bytes: number }>();
  const part = (title: string): LayerPart & { bytes: number } => ({ title, colour: "rest", values: new Float64Array(program.tileCount), bytes: 0 });
  const none = part("In none of these layers");
  const nodes = program.data.layers ?? [];
  const numbers = new Set(level.map((one) => one.id));
  for (const one of program.variables) {
    if (step !== null && !program.isLive(one, step)) continue;
    let at = one.layer ?? null;
    while (at !== null && !numbers.has(at)) at = nodes[at].parent;
    let into = none;
    if (at !== null) {
      into = sums.get(at) ?? part(nodes[at].name);
      sums.set(at, into);
    }
    into.bytes += one.bytes;
    program.tileBytes(one).forEach((value, tile) => (into.values[tile] += value));
  }
  const sorted = [...sums.values()].sort((a, b) => b.bytes - a.bytes);
  const shown = sorted.slice(0, colours.length);
  shown.forEach((one, index) => (one.colour = colours[index]));
  const others = part("Other layers");
  for (const one of sorted.slice(colours.length)) one.values.forEach((value, tile) => (others.values[tile] += value));
  const fixed = part("Code and vertex state");
  fixed.colour = "stack";
  for (const one of program.categories()) if (one.key === "code" || one.key === "vertex_state") one.values.forEach((value, tile) => (fixed.values[tile] += value));
  return [...shown, others, none, fixed].filter((one) => one.values.some((value) => value > 0));
}

/** The sum of `of` over the variables in each layer and below it. */
export function sumByLayer(program: Program, of: (variable: Variable) => number): Float64Array {
  const nodes = program.data.layers ?? [];
  const sums = new Float64Array(nodes.length);
  for (const one of program.variables) {
    const value = one.layer === null || one.layer === undefined ? 0 : of(one);
    if (value) for (let at: number | null = one.layer as number; at !== null; at = nodes[at].parent) sums[at] += value;
  }
  return sums;
}
