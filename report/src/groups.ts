// Sums of the rows of a table by what they belong to: layers of the model, functions of the user.
import type { Program } from "./model";
import { known, type Maybe } from "./numbers";

type By = "layer" | "function";

/** What rows can be added up by. */
export interface Grouping<Row> {
  by: By;
  /** The groups that a row counts in: its own and those around it. */
  of: (row: Row) => number[];
  name: (group: number) => string;
}

/** A group, with the sum of each column that is added up. */
export interface Group {
  id: number;
  sums: (number | null)[];
}

/** The group of rows that are in none. */
const none = -1;

/** By layer and by function, where the report has them; `of`: what a row belongs to. */
export function groupings<Row>(program: Program, of: (row: Row) => { [by in By]?: number | null } | undefined, kinds: By[] = ["layer", "function"]): Grouping<Row>[] {
  return kinds.flatMap((by) => {
    const nodes = program.data[`${by}s`];
    if (!nodes?.length) return [];
    const around = (row: Row) => {
      const found: number[] = [];
      for (let at = of(row)?.[by] ?? null; at !== null; at = nodes[at].parent) found.push(at);
      return found.length ? found : [none];
    };
    return [{ by, of: around, name: (group: number) => (group === none ? `In no ${by}` : program.pathOf(nodes, group).join(" / ")) }];
  });
}

/** The groups of some rows, outer ones before those in them; a sum of unknown values is null. */
export function rollUp<Row>(rows: Row[], grouping: Grouping<Row>, columns: { value: (row: Row) => unknown }[]): Group[] {
  const groups = new Map<number, Group>();
  for (const row of rows) {
    const values = columns.map((column) => column.value(row) as Maybe);
    for (const id of grouping.of(row)) {
      const { sums } = groups.get(id) ?? groups.set(id, { id, sums: columns.map(() => null) }).get(id)!;
      values.forEach((value, at) => known(value) && (sums[at] = (sums[at] ?? 0) + value));
    }
  }
  return [...groups.values()].sort((a, b) => a.id - b.id);
}
