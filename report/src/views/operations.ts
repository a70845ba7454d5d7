// Every operation with what it costs.
import { empty, facts, h, link, panel, replace, type Child } from "../dom";
import { phaseBar, plusMinus } from "../figure";
import type { Operation } from "../format";
import type { Program } from "../model";
import { bytes, count, cycles, integer, percent, type Maybe } from "../numbers";
import { numbers, Table, texts, type TableColumn } from "../table";
import type { Built, Context, View } from "../view";

function columns(program: Program): TableColumn<Operation>[] {
  const total = program.totalCycles() || 1;
  const largest = program.bySize()[0]?.cycles || 1;
  const number = (id: keyof Operation, title: string, format: (value: Maybe) => string, more?: Partial<TableColumn<Operation>>) => numbers<Operation>(id, title, 92, (row) => row[id] as number | null, format, more);
  const error = (row: Operation) => program.accuracyOf(row.kind)?.cycles ?? null;
  return [
    texts("name", "Operation", 210, (row) => row.name),
    texts("kind", "Kind", 156, (row) => row.kind),
    number("cycles", "Cycles", cycles, { help: "All executions of one call", share: (row) => row.cycles / largest }),
    numbers("share", "Share", 64, (row) => row.cycles / total, percent),
    numbers("error", "Error", 80, error, plusMinus, { help: "Expected error of the cycles" }),
    number("compute_cycles", "Compute", cycles),
    number("exchange_cycles", "Exchange", cycles),
    number("sync_cycles", "Sync", cycles, { width: 76 }),
    number("executions", "Executions", integer),
    number("flops", "FLOPs", count),
    number("utilisation", "Utilisation", percent, { help: "Of the chip's f16 peak during its cycles" }),
    number("exchange_bytes", "Exchanged", bytes),
    number("code_bytes", "Code", bytes),
    number("tiles", "Tiles", integer, { width: 64 }),
    texts("source", "Source", 130, (row) => program.sourceOf(row)),
    texts("scope", "Scope", 220, (row) => row.scope, { help: "JAX's name scope" }),
    texts("codelets", "Codelets", 220, (row) => row.codelets?.join(", ") ?? null, { hidden: true }),
  ];
}

function operationDetails(context: Context, operation: Operation): HTMLElement {
  const { program } = context;
  const steps = program.stepsOf(operation.id);
  const made = program.variables.filter((one) => one.first_step !== null && !one.lasting && steps.includes(one.first_step)).sort((a, b) => b.bytes - a.bytes).slice(0, 6);
  const accuracy = program.accuracyOf(operation.kind);
  const source = program.sourceOf(operation);
  const rows: [string, Child][] = [
    ["Kind", operation.kind],
    ["Scope", operation.scope || "none"],
    ["Source", source ? link(source, () => context.show("source")) : "not known"],
    ["Cycles", `${cycles(operation.cycles)}, expected error ${plusMinus(accuracy?.cycles)}${accuracy ? ` (${accuracy.basis})` : ""}`],
    ["Tiles", `${integer(operation.tiles)} of ${integer(program.tileCount)}`],
    ["Code", bytes(operation.code_bytes)],
    ["Codelets", operation.codelets?.join(", ") || "none"],
    [
      "Steps",
      steps.length
        ? [
            ...steps.slice(0, 12).flatMap((step) => [link(step, () => context.show("execution", { step })), " "]),
            steps.length > 12 ? `and ${steps.length - 12} more` : "",
          ]
        : "none",
    ],
    ["Makes", made.length ? made.flatMap((one) => [link(one.name, () => context.show("liveness", { variable: one.id })), ` ${bytes(one.bytes)} `]) : "no variable that is listed"],
  ];
  return panel(
    operation.name,
    program.data.operations[operation.id].name,
    phaseBar(operation.compute_cycles, operation.exchange_cycles, operation.sync_cycles) ?? empty("This operation costs no cycles."),
    facts(rows),
  );
}

function build(context: Context): Built {
  const { program, store } = context;
  const table = new Table<Operation>({
    id: "operations",
    label: "Operations",
    rows: program.operations,
    columns: columns(program),
    key: (row) => row.id,
    selected: () => store.state.operation,
    onSelect: (row) => context.select({ operation: row.id }),
    sort: { column: "cycles", descending: true },
    height: 520,
    none: program.nothing,
    filter: (row) => [row.name, row.kind, row.scope, row.codelets?.join(" "), program.sourceOf(row)].join(" "),
    choose: true,
  });
  const details = h("div.details", null);
  const draw = () => {
    const operation = store.state.operation === null ? undefined : program.operations[store.state.operation];
    replace(details, operation ? operationDetails(context, operation) : program.operations.length ? empty("Select an operation to see its phases, steps and variables.") : null);
  };
  draw();
  requestAnimationFrame(() => table.reveal(store.state.operation));
  return {
    element: h("div.view", null, panel("Operations", program.operations.length ? "Cycles are those of all executions in one call; Error is what they may be off." : null, table.element), details),
    update: () => {
      draw();
      table.reveal(store.state.operation);
    },
  };
}

export const operations: View = { id: "operations", title: "Operations", icon: "M2 3h12v2H2zM2 7h12v2H2zM2 11h8v2H2z", build };
