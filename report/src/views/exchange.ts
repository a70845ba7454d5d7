// Who sends what to whom, and when.
import { chart, indices, mark, type Chart } from "../chart";
import { arrows, choice, empty, h, on, panel, perFrame, replace, tooltip, within } from "../dom";
import { Matrix, decode } from "../decode";
import { cyclesError, figure } from "../figure";
import { groupings } from "../groups";
import { bytes, cycles, integer, percent, largest, total } from "../numbers";
import { numbers, Table, texts } from "../table";
import { colour, heatText } from "../theme";
import type { Built, Context, View } from "../view";

interface Pair {
  id: number;
  from: number;
  to: number;
  bytes: number;
}

function build(context: Context): Built {
  const { program, store } = context;
  const data = program.data.exchange;
  const ids = data?.steps ?? [];
  const between = decode(data?.between_ipus, program.stepCount);
  const anyBetween = between.some((value) => value > 0);
  if (!data || !(ids.length || anyBetween)) {
    return { element: h("div.view", null, panel("Exchange", null, empty(program.stepCount && program.data.program.fits ? "Nothing is exchanged between tiles." : program.nothing))) };
  }
  const { steps } = program;
  const sent = data.sent?.rows ? new Matrix(data.sent) : null;
  const received = data.received?.rows ? new Matrix(data.received) : null;
  const group = Math.max(1, data.group_tiles || 1);
  const groups = Math.ceil(program.tileCount / group);
  const entryOf = new Map(ids.map((step, index) => [step, index]));
  let scope: "program" | "step" = "program";
  const groupName = (index: number) => (group === 1 ? `tile ${index}` : `tiles ${index * group}–${Math.min(program.tileCount, (index + 1) * group) - 1}`);

  /** The entry of the selected step, if that step exchanges. */
  const entry = (): number | null => (store.state.step === null ? null : (entryOf.get(store.state.step) ?? null));
  const weights = ids.map((step) => program.times(step));

  const triplesOf = (index: number): number[] => {
    const found = data.pairs?.[index] ?? [];
    return "same" in found ? triplesOf(found.same) : found;
  };
  const pairs = (): { list: Pair[]; grid: Float64Array } => {
    const grid = new Float64Array(groups * groups);
    const chosen = scope === "step" ? entry() : null;
    data.pairs?.forEach((_, index) => {
      if (scope === "step" && index !== chosen) return;
      const triples = triplesOf(index);
      const weight = scope === "step" ? 1 : weights[index];
      for (let i = 0; i + 2 < triples.length; i += 3) grid[triples[i] * groups + triples[i + 1]] += triples[i + 2] * weight;
    });
    const list: Pair[] = [];
    grid.forEach((value, index) => {
      if (value > 0) list.push({ id: index, from: Math.floor(index / groups), to: index % groups, bytes: value });
    });
    return { list, grid };
  };

  const canvas = h("canvas", { role: "img", "aria-label": "Bytes from group of tiles (down) to group of tiles (across); the table beside has the same as numbers." });
  const matrixHost = h("div.plan", null, canvas);
  const tip = tooltip(matrixHost);
  let grid: Float64Array = new Float64Array(0);
  let cell = 4;
  const drawMatrix = perFrame(() => {
    const room = Math.min(matrixHost.clientWidth, 520);
    if (room < 20) return;
    const ratio = devicePixelRatio || 1;
    cell = Math.max(2, Math.floor((room * ratio) / groups));
    canvas.width = canvas.height = cell * groups;
    canvas.style.width = canvas.style.height = `${(cell * groups) / ratio}px`;
    const pen = canvas.getContext("2d")!;
    const palette = heatText();
    const most = largest(grid, Number) || 1;
    const gap = cell > 5 ? 1 : 0;
    for (let i = 0; i < grid.length; i++) {
      pen.fillStyle = palette[grid[i] > 0 ? Math.max(1, Math.round((grid[i] / most) * 255)) : 0];
      pen.fillRect((i % groups) * cell, Math.floor(i / groups) * cell, cell - gap, cell - gap);
    }
    if (store.state.tile !== null) {
      const own = Math.floor(store.state.tile / group);
      pen.strokeStyle = colour("selected");
      pen.lineWidth = 2;
      pen.strokeRect(0, own * cell, canvas.width, cell);
      pen.strokeRect(own * cell, 0, cell, canvas.height);
    }
  });
  const at = (event: MouseEvent) => {
    const box = canvas.getBoundingClientRect();
    const from = Math.min(groups - 1, Math.floor(((event.clientY - box.top) / box.height) * groups));
    const to = Math.min(groups - 1, Math.floor(((event.clientX - box.left) / box.width) * groups));
    return { from, to };
  };
  on(canvas, "mousemove", (event) => {
    const { from, to } = at(event);
    tip.show(`${groupName(from)} → ${groupName(to)}: ${bytes(grid[from * groups + to])}`, event.offsetX, event.offsetY);
  });
  on(canvas, "mouseleave", tip.hide);
  on(canvas, "click", (event) => context.select({ tile: at(event).from * group }));

  const pairHost = h("div", null);
  const tileHost = h("div", null);
  let tilePlot: Chart | null = null;
  const draw = () => {
    const found = pairs();
    grid = found.grid;
    drawMatrix();
    const most = largest(found.list, (one) => one.bytes, 1);
    const sum = total(found.list, (one) => one.bytes);
    const table = new Table<Pair>({
      id: "pairs",
      label: "Pairs of groups of tiles",
      rows: found.list,
      columns: [
        { id: "from", title: "From", width: 120, value: (row) => row.from, render: (row) => groupName(row.from) },
        { id: "to", title: "To", width: 120, value: (row) => row.to, render: (row) => groupName(row.to) },
        numbers("bytes", "Bytes", 90, (row) => row.bytes, bytes, { share: (row) => row.bytes / most }),
        numbers("share", "Share", 70, (row) => row.bytes / (sum || 1), percent),
      ],
      key: (row) => row.id,
      sort: { column: "bytes", descending: true },
      height: 420,
      none: scope === "step" ? "Select a step that exchanges: nothing is exchanged in this one." : "The report does not say who sends to whom.",
    });
    replace(pairHost, h("p.note", null, figure(sum, bytes, "pairs_bytes"), group > 1 ? " between tiles, in the same group or another." : " between tiles."), table.element);

    tilePlot?.destroy();
    tilePlot = null;
    const chosen = scope === "step" ? entry() : null;
    const sums = (matrix: Matrix | null): Float64Array | null => (!matrix || (scope === "step" && chosen === null) ? null : chosen === null ? matrix.sum(weights) : matrix.row(chosen));
    const out = sums(sent);
    const into = sums(received);
    if (out || into) {
      const length = (out ?? into)!.length;
      tilePlot = chart({
        label: "Bytes that each tile sends and receives",
        height: 200,
        x: { label: "Tile", values: indices(length) },
        lines: [...(out ? [{ label: "Sent", colour: "compute", values: out }] : []), ...(into ? [{ label: "Received", colour: "exchange", values: into }] : [])],
        format: bytes,
        binary: true,
        onPick: (tile) => context.select({ tile }),
      });
      replace(tileHost, tilePlot.element);
    } else replace(tileHost, empty(scope === "step" ? "Select a step that exchanges." : "The report has no bytes of single tiles."));
  };

  const byStep = chart({
    label: "Bytes exchanged by step",
    height: 190,
    x: { label: "Step of the program", values: indices(program.stepCount) },
    lines: [
      { label: "Between tiles", colour: "exchange", values: steps.exchange_bytes, fill: true },
      ...(anyBetween ? [{ label: "Between IPUs", colour: "links", values: between, width: 2 }] : []),
    ],
    format: bytes,
    binary: true,
    onPick: (step) => context.select({ step }),
    overlay: (self, pen) => {
      if (store.state.step !== null) mark(self, pen, store.state.step + 0.5, "selected");
    },
  });
  arrows(byStep.element, (by) => context.select({ step: within((store.state.step ?? -1) + by, 0, program.stepCount - 1) }));
  draw();
  const observer = new ResizeObserver(drawMatrix);
  observer.observe(matrixHost);

  // Sums over all IPUs move over the links only.
  const each = [...indices(program.stepCount)].filter((step) => entryOf.has(step) || between[step] > 0).map((step) => ({ step }));
  const layerOf = ({ step }: { step: number }) => program.layerOf(program.operationOf(step));
  const table = new Table<{ step: number }>({
    id: "exchanges",
    label: "Steps that exchange",
    rows: each,
    columns: [
      numbers("step", "Step", 64, (row) => row.step, integer),
      texts("name", "Operation", 230, (row) => program.stepTitle(row.step)),
      numbers("bytes", "Bytes", 90, (row) => steps.exchange_bytes[row.step], bytes, { help: "One execution" }),
      texts("layer", "Layer", 150, (row) => layerOf(row) || null),
      numbers("all", "All executions", 110, (row) => steps.exchange_bytes[row.step] * program.times(row.step), bytes, { sum: true }),
      numbers("cycles", "Cycles", 80, (row) => program.stepPhases(row.step).exchange * program.times(row.step), cycles, { help: "Between tiles, all executions", sum: true }),
      numbers("links", "IPU-Links", 80, (row) => steps.links[row.step] * program.times(row.step), cycles, { hidden: !anyBetween, help: "Cycles between IPUs, all executions", sum: true }),
      numbers("rate", "Bytes a cycle", 100, (row) => (steps.exchange[row.step] ? steps.exchange_bytes[row.step] / steps.exchange[row.step] : null), integer, { help: "Over all tiles" }),
      numbers("between", "Between IPUs", 104, (row) => between[row.step] * program.times(row.step), bytes, { hidden: !anyBetween, help: "All executions", sum: true }),
    ],
    key: (row) => row.step,
    selected: () => store.state.step,
    onSelect: (row) => context.select({ step: row.step }),
    sort: { column: "all", descending: true },
    height: 320,
    none: "Nothing is exchanged.",
    groupings: groupings(program, (row) => program.operationOf(row.step)),
    filter: (row) => `${program.stepTitle(row.step)} ${layerOf(row)}`,
  });
  const all = total(ids, (step, index) => steps.exchange_bytes[step] * weights[index]);
  const link = total(between, (value, step) => value * program.times(step));
  return {
    element: h("div.view", null,
      panel(
        "Exchange by step",
        [
          figure(all, bytes, "exchange_bytes"),
          ` between tiles in ${integer(ids.length)} steps, all executions`,
          anyBetween ? [", ", figure(link, bytes, "between_ipus"), " between IPUs"] : null,
          `. Expected error of the cycles: ${cyclesError(program).text}; congestion is not modelled.`,
        ],
        byStep.element,
      ),
      panel(
        "Who sends to whom",
        group > 1 ? `Tiles in groups of ${group}; senders down, receivers across.` : "Senders down, receivers across.",
        h("div.tools", null, choice("Of", [["program", "Whole program"], ["step", "Selected step"]] as const, scope, (value) => ((scope = value), draw()))),
        h("div.columns-2", null, data.pairs ? matrixHost : empty("The report does not say who sends to whom."), pairHost),
        h("h3", null, "Bytes of each tile"),
        tileHost,
      ),
      panel("Steps", null, table.element),
    ),
    update: (state, before) => {
      byStep.redraw();
      if (state.step !== before.step) {
        if (scope === "step") draw();
        table.reveal(state.step);
      }
      drawMatrix();
    },
    destroy: () => {
      observer.disconnect();
      tilePlot?.destroy();
      byStep.destroy();
    },
  };
}

export const exchange: View = { id: "exchange", title: "Exchange", icon: "M2 4h8V1.5L14.5 5 10 8.5V6H2zM14 12H6v2.5L1.5 11 6 7.5V10h8z", build };
