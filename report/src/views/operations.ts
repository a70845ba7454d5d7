// Every operation with what it costs.
import { empty, facts, h, link, panel, replace, type Child } from "../dom";
import { phaseBar, plusMinus } from "../figure";
import type { Frame, Operation } from "../format";
import { groupings } from "../groups";
import { phasesOf, type Program } from "../model";
import { bytes, count, cycles, integer, percent, type Maybe } from "../numbers";
import { roofline } from "../roofline";
import { numbers, Table, texts, type TableColumn } from "../table";
import type { Built, Context, View } from "../view";

const brief = (frame: Frame) => `${frame.path.split("/").pop()}:${frame.line}`;

function columns(program: Program): TableColumn<Operation>[] {
  const total = program.totalCycles() || 1;
  const largest = program.bySize()[0]?.cycles || 1;
  const noLinks = !program.totalPhases().links;
  const frames = program.data.frames ?? [];
  const caller = (row: Operation) => {
    const frame = frames[row.stack?.slice(1).find((call) => !frames[call]?.library) ?? -1];
    return frame ? brief(frame) : null;
  };
  const number = (id: keyof Operation, title: string, format: (value: Maybe) => string, more?: Partial<TableColumn<Operation>>) => numbers<Operation>(id, title, 92, (row) => row[id] as number | null, format, more);
  const error = (row: Operation) => program.accuracyOf(row.kind)?.cycles ?? null;
  return [
    texts("name", "Operation", 230, (row) => row.name, { stay: true }),
    number("cycles", "Cycles", cycles, { help: "All executions of one call", share: (row) => (row.cycles ?? 0) / largest, sum: true, stay: true }),
    numbers("share", "Share", 64, (row) => (row.cycles === null ? null : row.cycles / total), percent, { sum: true }),
    texts("layer", "Layer", 180, (row) => program.layerOf(row) || null, { help: "Name scopes, and functions under jit" }),
    texts("direction", "Direction", 92, (row) => (row.backward === undefined ? null : row.backward ? "backward" : "forward")),
    texts("shape", "Shape", 110, (row) => row.shape || null, { help: "Of the results" }),
    texts("kind", "Kind", 156, (row) => row.kind),
    numbers("error", "Error", 80, error, plusMinus, { help: "Expected error of the cycles" }),
    number("compute_cycles", "Compute", cycles, { sum: true }),
    numbers("exchange_cycles", "Exchange", 92, (row) => (row.exchange_cycles === null ? null : phasesOf(row).exchange), cycles, { help: "Between the tiles of an IPU", sum: true }),
    numbers("link_cycles", "IPU-Links", 92, (row) => row.link_cycles, cycles, { hidden: noLinks, sum: true }),
    number("sync_cycles", "Sync", cycles, { width: 76, sum: true }),
    number("executions", "Executions", integer),
    number("flops", "FLOPs", count, { sum: true }),
    number("utilisation", "Utilisation", percent, { help: "Of the chip's f16 peak during its cycles" }),
    number("exchange_bytes", "Exchanged", bytes, { sum: true }),
    number("code_bytes", "Code", bytes, { sum: true }),
    number("tiles", "Tiles", integer, { width: 64 }),
    texts("source", "Source", 130, (row) => program.sourceOf(row)),
    texts("caller", "Called at", 130, caller, { help: "The line of your files that calls the function with the source line" }),
    texts("scope", "Scope", 220, (row) => row.scope, { help: "JAX's name stack", hidden: true }),
    texts("codelets", "Codelets", 220, (row) => row.codelets?.join(", ") ?? null, { hidden: true }),
  ];
}

function operationDetails(context: Context, operation: Operation): HTMLElement {
  const { program } = context;
  const steps = program.stepsOf(operation.id);
  const made = program.variables.filter((one) => one.first_step !== null && !one.lasting && steps.includes(one.first_step)).sort((a, b) => b.bytes - a.bytes).slice(0, 6);
  const accuracy = program.accuracyOf(operation.kind);
  const source = program.sourceOf(operation);
  const frames = (operation.stack ?? []).flatMap((call) => program.data.frames?.[call] ?? []);
  const rows: [string, Child | null][] = [
    ["Kind", operation.kind],
    ["Layer", program.layerOf(operation) || "none"],
    ["Scope", operation.scope || "none"],
    ["Result", operation.shape || null],
    ["Source", source ? link(source, () => context.show("source")) : "not known"],
    ["Call stack", frames.length ? h("ol.calls", null, frames.map((call) => h("li", { class: call.library ? "library" : null, title: call.path }, brief(call), call.function ? ` in ${call.function}` : ""))) : null],
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
    phaseBar(phasesOf(operation)) ?? empty(operation.cycles === null ? program.nothing : "This operation costs no cycles."),
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
    sort: { column: program.planned ? "cycles" : "flops", descending: true },
    height: 520,
    none: program.nothing,
    filter: (row) => [row.name, row.kind, row.scope, program.layerOf(row), row.codelets?.join(" "), row.shape, row.backward ? "backward" : "forward", program.sourceOf(row)].join(" "),
    choose: true,
    groupings: groupings(program, (row) => row),
  });
  const details = h("div.details", null);
  const roof = roofline(context);
  const draw = () => {
    const operation = store.state.operation === null ? undefined : program.operations[store.state.operation];
    replace(details, operation ? operationDetails(context, operation) : program.operations.length ? empty("Select an operation to see its phases, steps and variables.") : null);
  };
  draw();
  requestAnimationFrame(() => table.reveal(store.state.operation));
  return {
    element: h("div.view", null, panel("Operations", program.operations.length ? "Cycles are those of all executions in one call; Error is what they may be off. The last row has the sums of what the filter leaves, and each layer has its own." : null, table.element), details, roof.element),
    update: () => {
      draw();
      table.reveal(store.state.operation);
      roof.redraw();
    },
  };
}

export const operations: View = { id: "operations", title: "Operations", icon: "M2 3h12v2H2zM2 7h12v2H2zM2 11h8v2H2z", build };
