// The program in time: exchange, compute and sync of every step, of every tile where that is known.
import { chart, indices, type Chart } from "../chart";
import { empty, facts, h, link, panel, replace } from "../dom";
import { cyclesError, figure, phaseBar, plusMinus } from "../figure";
import { groupings } from "../groups";
import type { Phases } from "../model";
import { bytes, cycles, integer, largest, percent, total } from "../numbers";
import { stepsTimeline } from "../steps_timeline";
import { numbers, Table, texts } from "../table";
import type { Built, Context, View } from "../view";

function build(context: Context): Built {
  const { program, store } = context;
  if (!indices(program.stepCount).some((step) => program.stepCycles(step) > 0)) {
    return { element: h("div.view", null, panel("Execution", null, empty(program.nothing))) };
  }
  const { steps } = program;
  const operationOf = program.operationOf.bind(program);
  const layerOf = (step: number) => program.layerOf(operationOf(step));
  const balanceOf = (step: number) => (steps.compute[step] ? steps.mean_compute[step] / steps.compute[step] : null);
  const totalOf = (step: number) => program.stepCycles(step) * program.times(step);
  const unit = h("span", { "data-unit": "" });
  const sayUnit = (cost: number, all: boolean) => replace(unit, figure(cost, cycles, "steps_cycles"), all ? " cycles in all executions, as wide as they are drawn" : " cycles in one pass: bodies of loops are drawn once");
  const time = stepsTimeline(context, sayUnit);
  const details = h("div.details", null);
  let plot: Chart | null = null;

  const drawDetails = () => {
    plot?.destroy();
    plot = null;
    const step = store.state.step;
    if (step === null || step >= program.stepCount) {
      replace(details, empty("Select a step to see its phases and the balance of its tiles."));
      return;
    }
    const operation = operationOf(step);
    const row = program.tileCompute()?.row(step);
    const cost = program.stepCycles(step);
    if (row) {
      plot = chart({
        label: `Compute cycles of each tile in step ${step}`,
        height: 170,
        x: { label: "Tile", values: indices(row.length) },
        lines: [
          { label: "Compute", colour: "compute", values: row, fill: true },
          { label: "Mean", colour: "text", values: new Float64Array(row.length).fill(steps.mean_compute[step]), dash: [4, 4] },
        ],
        format: cycles,
        onPick: (tile) => context.select({ tile }),
      });
    }
    const times = program.times(step);
    const rows: [string, Node | string][] = [
      ["Operation", operation ? link(operation.name, () => context.show("operations", { operation: operation.id })) : (steps.kind[step] ?? "none")],
      ["Executions", steps.counted[step] ? integer(times) : `${integer(steps.executions[step])}, in a branch that is not counted`],
      ["Cycles of one execution", figure(cost, integer, "step_cycles")],
      ["All executions", figure(cost * times, integer, "step_total")],
      ["Expected error", plusMinus(operation && program.accuracyOf(operation.kind)?.cycles)],
      ["Busy tiles", `${integer(steps.active_tiles[step])} of ${integer(program.tileCount)}`],
      ["Balance", steps.compute[step] ? `${percent(balanceOf(step))} (mean ${cycles(steps.mean_compute[step])}, slowest ${cycles(steps.compute[step])})` : "no compute"],
      ...(steps.local_copies[step] ? [["Copies on tiles", `${cycles(steps.local_copies[step])} of the compute cycles`] as [string, string]] : []),
      ["Exchanged", figure(steps.exchange_bytes[step], bytes, "step_exchange_bytes")],
    ];
    replace(
      details,
      panel(
        `Step ${step}: ${program.stepTitle(step)}`,
        null,
        h("div.columns-2", null,
          h(
            "div",
            null,
            phaseBar(program.stepPhases(step)),
            facts(rows),
          ),
          plot ? plot.element : empty("The report has no cycles of single tiles for this step."),
        ),
      ),
    );
  };

  const lost = (step: number) => (steps.compute[step] - steps.mean_compute[step]) * program.times(step);
  const all = [...indices(program.stepCount)];
  const most = largest(all, lost, 1);
  const phase = (id: keyof Phases, title: string, more = {}) => numbers<number>(id, title, 84, (row) => program.stepPhases(row)[id] * program.times(row), cycles, { sum: true, ...more });
  const balance = new Table<number>({
    id: "steps",
    label: "Steps",
    rows: all,
    columns: [
      numbers("step", "Step", 64, (row) => row, integer),
      texts("name", "Operation", 230, program.stepTitle.bind(program)),
      texts("layer", "Layer", 150, (row) => layerOf(row) || null),
      numbers("total", "Cycles", 90, totalOf, cycles, { sum: true }),
      numbers("lost", "Waiting", 90, lost, cycles, { help: "Cycles that the mean tile waits for the slowest", share: (row) => lost(row) / most, sum: true }),
      numbers("executions", "Executions", 102, (row) => steps.executions[row], integer),
      phase("compute", "Compute"),
      phase("exchange", "Exchange"),
      phase("links", "IPU-Links", { hidden: !program.totalPhases().links }),
      phase("sync", "Sync"),
      numbers("balance", "Balance", 84, balanceOf, percent, { help: "Mean over the slowest tile" }),
      numbers("tiles", "Busy tiles", 84, (row) => steps.active_tiles[row], integer),
    ],
    key: (row) => row,
    selected: () => store.state.step,
    onSelect: (step) => context.select({ step }),
    sort: { column: "lost", descending: true },
    height: 340,
    none: "There are no steps.",
    groupings: groupings(program, operationOf),
    filter: (row) => `${program.stepTitle(row)} ${layerOf(row)}`,
  });
  drawDetails();
  time.redraw();
  sayUnit(total(all, totalOf), true);
  return {
    element: h("div.view", null,
      panel(
        "Execution",
        [
          figure(program.stepCount, integer, "steps"),
          " supersteps, ",
          unit,
          all.some((step) => !steps.counted[step]) ? " (of a conditional, those of its most expensive branch)" : "",
          `. Expected error: ${cyclesError(program).text}. Drag to move, Ctrl + wheel to zoom, Shift + wheel to zoom tiles.`,
        ],
        time.element,
      ),
      details,
      panel("Steps", "Cycles of all executions. Waiting is what a better balance of tiles could save at most.", balance.element),
    ),
    update: (state, before) => {
      if (state.step !== before.step) {
        drawDetails();
        if (state.step !== null) time.show(state.step);
        balance.reveal(state.step);
      }
      time.redraw();
    },
    destroy: () => {
      plot?.destroy();
      time.destroy();
    },
  };
}

export const execution: View = { id: "execution", title: "Execution", icon: "M1 3h6v2.5H1zM5 7h7v2.5H5zM9 11h6v2.5H9z", build };
