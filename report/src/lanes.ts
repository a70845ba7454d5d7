// The nodes of the program tree as lanes of a timeline: one lane for each level.
import type { TreeNode } from "./format";
import type { Program } from "./model";

export interface Span {
  first: number;
  last: number;
  label: string;
  kind: string;
  operation: number | null;
  trips: number | null;
}

const deepest = 6;

/** What the lanes show: the program tree, the layers of the model, or the functions of the user. */
export type Lanes = "program" | "layers" | "functions";

/** Runs of steps that share the first names of their paths, a lane for each level. */
function byPath(program: Program, paths: string[][]): Span[][] {
  const levels: Span[][] = [];
  program.steps.operation.forEach((operation, step) => {
    const path = paths[operation] ?? [];
    const before = paths[program.steps.operation[step - 1]] ?? [];
    let same = true;
    path.slice(0, deepest).forEach((name, level) => {
      same &&= before[level] === name;
      const lane = (levels[level] ??= []);
      if (same) lane[lane.length - 1].last = step;
      else lane.push({ first: step, last: step, label: name, kind: "layer", operation: null, trips: null });
    });
  });
  return levels;
}

export function lanes(program: Program, by: Lanes = "program"): Span[][] {
  if (by !== "program") {
    const nodes = program.data[by];
    const found = byPath(program, program.operations.map((one) => program.pathOf(nodes, by === "layers" ? one.layer : one.function)));
    return [...found, operationLane(program)];
  }
  const levels: Span[][] = [];
  const depth = new Map<number, number>();
  const depthOf = (node: TreeNode): number => {
    const known = depth.get(node.id);
    if (known !== undefined) return known;
    const parent = node.parent === null ? undefined : program.tree[node.parent];
    const own = parent ? depthOf(parent) + 1 : 0;
    depth.set(node.id, own);
    return own;
  };
  for (const node of program.tree) {
    if (node.first_step === null || node.last_step === null) continue;
    const level = depthOf(node);
    if (level >= deepest) continue;
    (levels[level] ??= []).push({ first: node.first_step, last: node.last_step, label: program.labelOf(node), kind: node.kind, operation: node.operation, trips: node.trips });
  }
  const found = levels.filter((level) => level?.length);
  // The root alone says nothing.
  if (found.length > 1 && found[0].length === 1) found.shift();
  for (const level of found) level.sort((a, b) => a.first - b.first);
  if (!found.some((level) => level.some((span) => span.operation !== null)) && program.stepCount) found.push(operationLane(program));
  return found;
}

function operationLane(program: Program): Span[] {
  const spans: Span[] = [];
  program.steps.operation.forEach((operation, step) => {
    const before = spans[spans.length - 1];
    if (before?.operation === operation) before.last = step;
    else spans.push({ first: step, last: step, label: program.operations[operation]?.name ?? "", kind: "operation", operation, trips: null });
  });
  return spans;
}

/** One of eight calm colours for a kind of operation, the same in every report. */
export function shade(text: string): string {
  let hash = 7;
  for (let i = 0; i < text.length; i++) hash = (hash * 31 + text.charCodeAt(i)) >>> 0;
  return `kind-${hash % 8}`;
}
