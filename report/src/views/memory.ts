// What is in the memory of each tile.
import { chart, indices, mark, stacked, type Chart, type Line } from "../chart";
import { arrows, checkbox, choice, empty, facts, h, key, link, panel, replace, select, within, type Child } from "../dom";
import { figure, memoryError, memorySentence } from "../figure";
import type { CostNode, Variable } from "../format";
import { memoryByLayer, outermost, sumByLayer } from "../layers";
import { bytes, integer, percent, largest } from "../numbers";
import { floorPlan, type Plan } from "../plan";
import { numbers, Table, texts } from "../table";
import type { Built, Context, View } from "../view";

type By = "category" | "layer" | "liveness" | "variable";
type Order = "tile" | "size";

function build(context: Context): Built {
  const { program, store } = context;
  const totals = program.tileTotals();
  if (!totals) return { element: h("div.view", null, panel("Memory", null, empty("The report has no memory for its tiles."))) };
  const gaps = program.gaps();
  const categories = program.categories();
  const tiles = program.tileCount;
  let by: By = "category";
  let order: Order = "tile";
  let withGaps = false;
  let colouredBy = "total";
  let drawn: Chart | null = null;
  const plotHost = h("div", null);
  const moment = h("span.hint", null);
  const layersHost = h("div", null);
  const tileHost = h("div.details", null);

  const byLayer = outermost(program).level.length > 0;
  const variable = (): Variable | null => (store.state.variable === null ? null : (program.variables[store.state.variable] ?? null));
  const liveStep = () => store.state.step ?? program.data.memory?.peak_step ?? null;

  const layers = (): Line[] => {
    if (by === "category") return categories.map((one) => ({ label: one.title, colour: one.colour, values: one.values, fill: true }));
    if (by === "layer") return memoryByLayer(program, liveStep()).map((one) => ({ label: one.title, colour: one.colour, values: one.values, fill: true }));
    const one = variable();
    const own = one && program.tileBytes(one);
    if (by === "variable") {
      const values = own ?? new Float64Array(tiles);
      return [
        { label: one?.name ?? "No variable selected", colour: "selected", values, fill: true },
        { label: "Everything else", colour: "rest", values: totals.map((value, tile) => Math.max(0, value - values[tile])), fill: true },
      ];
    }
    // Always live: variables that last, constants, code and state. The rest is live for a part of the program.
    const always = new Float64Array(tiles);
    for (const kept of program.variables) if (kept.lasting) program.tileBytes(kept).forEach((value, tile) => (always[tile] += value));
    for (const one of categories) if (one.key === "code" || one.key === "vertex_state" || one.key === "stack") one.values.forEach((value, tile) => (always[tile] += value));
    return [
      { label: "Always live", colour: "variables", values: always.map((value, tile) => Math.min(value, totals[tile])), fill: true },
      { label: "Not always live", colour: "temporaries", values: totals.map((value, tile) => Math.max(0, value - always[tile])), fill: true },
    ];
  };

  let liveAt: number | null = -1;
  let liveValues: Float64Array = new Float64Array(tiles);
  let tileOf: Int32Array = new Int32Array(0);
  const plot = () => {
    drawn?.destroy();
    const parts = layers();
    if (withGaps && gaps) parts.push({ label: "Gaps", colour: "rest", values: gaps, fill: true });
    const full = (tile: number) => totals[tile] + (withGaps && gaps ? gaps[tile] : 0);
    moment.textContent = by === "layer" ? (liveStep() === null ? "By layer: what is live at the fullest moment." : `By layer: what is live in step ${integer(liveStep())}, ${store.state.step === null ? "the fullest" : "which is selected"}.`) : "";
    tileOf = Int32Array.from(indices(tiles));
    if (order === "size") tileOf.sort((a, b) => full(b) - full(a));
    const sorted = parts.map((part) => Float64Array.from(tileOf, (tile) => part.values[tile] as number));
    const sums = stacked(sorted);
    drawn = chart({
      label: "Memory of each tile",
      height: 280,
      x: { label: order === "tile" ? "Tile" : "Tiles, fullest first", values: indices(tiles) },
      // The largest sum is drawn first, so that the others cover it.
      lines: parts.map((part, index) => ({ ...part, values: sums[index], own: sorted[index] })).reverse(),
      format: bytes,
      binary: true,
      limit: [program.capacity, `${bytes(program.capacity)} a tile`],
      onPick: (index) => context.select({ tile: tileOf[index] }),
      overlay: (self, canvas) => {
        const tile = store.state.tile;
        const at = tile === null ? -1 : tileOf.indexOf(tile);
        if (at >= 0) mark(self, canvas, at + 0.5, "selected");
      },
    });
    arrows(drawn.element, (by) => context.select({ tile: tileOf[within((store.state.tile === null ? -1 : tileOf.indexOf(store.state.tile)) + by, 0, tiles - 1)] }));
    replace(plotHost, drawn.element);
  };

  const planValues = (): Float64Array => {
    if (colouredBy === "variable") {
      const one = variable();
      return one ? program.tileBytes(one) : new Float64Array(tiles);
    }
    if (colouredBy === "step") {
      const step = liveStep();
      if (step !== liveAt) [liveAt, liveValues] = [step, step === null ? new Float64Array(tiles) : program.liveBytes(step)];
      return liveValues;
    }
    if (colouredBy === "gaps" && gaps) return gaps;
    return categories.find((one) => one.key === colouredBy)?.values ?? totals;
  };

  const plan: Plan = floorPlan(program, {
    label: "Floor plan of the chip, coloured by memory",
    values: planValues,
    limit: program.capacity,
    format: bytes,
    selected: () => store.state.tile,
    onSelect: (tile) => context.select({ tile }),
    describe: (tile) => `Tile ${tile}: ${bytes(planValues()[tile])}`,
  });

  const drawTile = () => {
    const tile = store.state.tile;
    if (tile === null || tile >= tiles) {
      replace(tileHost, panel("Tile", null, empty("Select a tile in the plot or on the floor plan to see what is on it.")));
      return;
    }
    const addresses = program.addresses(tile);
    const held = program.variables.filter((one) => program.bytesOn(one, tile) > 0);
    const table = new Table<Variable>({
      id: "tile-variables",
      label: "Variables on the tile",
      rows: held,
      columns: [
        texts("name", "Variable", 230, (row) => row.name),
        numbers("bytes", "Here", 84, (row) => program.bytesOn(row, tile), bytes, { share: (row) => program.bytesOn(row, tile) / program.capacity }),
        ...(addresses ? [numbers<Variable>("address", "Address", 84, (row) => addresses.get(row.id) ?? null, (value) => `0x${value?.toString(16)}`)] : []),
        texts("role", "Role", 124, (row) => row.role),
        ...(byLayer ? [texts<Variable>("layer", "Layer", 150, (row) => program.layerOf(row) || null)] : []),
        texts("live", "Live", 100, (row) => (row.lasting ? "always" : row.first_step === null ? "at the peak" : `${row.first_step}–${row.last_step}`)),
      ],
      key: (row) => row.id,
      selected: () => store.state.variable,
      onSelect: (row) => context.select({ variable: row.id }),
      sort: { column: "bytes", descending: true },
      height: 260,
      none: "No listed variable has elements on this tile.",
      filter: (row) => `${row.name} ${row.role} ${program.layerOf(row)}`,
    });
    replace(
      tileHost,
      panel(
        `Tile ${integer(tile)}`,
        [figure(totals[tile], bytes, "tile_bytes"), ` of ${bytes(program.capacity)} (${percent(totals[tile] / program.capacity)}) at its fullest moment`, gaps && ["; ", figure(gaps[tile], bytes, "tile_gaps"), " in gaps"], "."],
        facts(
          [
            ...categories.map((one) => [[key(one.colour), one.title], figure(one.values[tile], bytes, `tile_${one.key}`)] as [Child, Child]),
            ...program.unknownCategories().map(([id, title, colour]) => [[key(colour), title], figure(null, bytes, `tile_${id}`)] as [Child, Child]),
          ],
          "compact",
        ),
        table.element,
      ),
    );
  };

  const drawLayers = () => {
    if (!byLayer) return;
    const { step, tile } = store.state;
    const at = liveStep();
    const nodes = program.data.layers ?? [];
    const live = sumByLayer(program, (one) => (at === null || program.isLive(one, at) ? one.bytes : 0));
    const here = tile === null ? null : sumByLayer(program, (one) => (at === null || program.isLive(one, at) ? program.bytesOn(one, tile) : 0));
    const most = largest(live, Number, 1);
    const table = new Table<CostNode>({
      id: "memory-layers",
      label: "Memory by layer",
      rows: nodes,
      columns: [
        texts("name", "Layer", 260, (row) => program.pathOf(nodes, row.id).join(" / "), { stay: true }),
        numbers("live", at === null ? "Live" : `In step ${at}`, 110, (row) => live[row.id], bytes, { share: (row) => live[row.id] / most, help: "Of variables, temporaries and buffers that are live, on all tiles" }),
        ...(here ? [numbers<CostNode>("here", `On tile ${tile}`, 100, (row) => here[row.id], bytes)] : []),
        numbers("all", "Variables", 100, (row) => row.variable_bytes, bytes, { help: "All variables of the layer on all tiles, live at the same time or not" }),
        numbers("code", "Code", 90, (row) => row.code_bytes, bytes),
      ],
      key: (row) => row.id,
      sort: { column: "live", descending: true },
      height: 300,
      none: "",
      filter: (row) => program.pathOf(nodes, row.id).join(" / "),
    });
    const when = step !== null ? `the selected step ${step}` : "the fullest moment";
    replace(layersHost, panel("Layers", `Each with all that is in it. An argument belongs to the layer that reads it first, another variable to the one that writes it first. Live is at ${when}.`, table.element));
  };

  const fullest = totals.indexOf(largest(totals, Number));
  const error = memoryError(program, fullest);
  plot();
  drawTile();
  drawLayers();
  const planSource = program.data.chip.floor_plan?.source;
  return {
    element: h("div.view", null,
      panel(
        "Memory of each tile",
        [
          `Each tile at its own fullest moment; the fullest is `,
          link(`tile ${fullest}`, () => context.select({ tile: fullest })),
          ` with `,
          figure(totals[fullest], bytes, "fullest"),
          `. ${memorySentence(error)} Drag to zoom, Shift + drag to move, double-click for all tiles.`,
        ],
        h("div.tools", null,
          choice<By>("Plot by", [["category", "By category"], ...(byLayer ? [["layer", "By layer"] as const] : []), ["liveness", "By liveness"], ["variable", "By variable"]], by, (value) => ((by = value), plot())),
          choice<Order>("Order of tiles", [["tile", "Tile number"], ["size", "Fullest first"]], order, (value) => ((order = value), plot())),
          gaps && checkbox("Gaps", withGaps, (on) => ((withGaps = on), plot())),
          moment,
        ),
        plotHost,
      ),
      h("div.columns-2", null,
        panel(
          "Floor plan",
          planSource || (program.data.chip.floor_plan ? null : "No plan of this chip is known: tiles are drawn row by row."),
          h("div.tools", null,
            select(
              "Colour by",
              [
                ["total", "Memory in use"],
                ...categories.map((one) => [one.key, one.title] as const),
                ["variable", "Selected variable"],
                ...(program.stepCount ? [["step", "Live at the selected step"] as const] : []),
                ...(gaps ? [["gaps", "Gaps"] as const] : []),
              ],
              colouredBy,
              (value) => ((colouredBy = value), plan.redraw()),
            ),
          ),
          plan.element,
        ),
        tileHost,
      ),
      layersHost,
    ),
    update: (state, before) => {
      if ((state.variable !== before.variable && by === "variable") || (state.step !== before.step && by === "layer")) plot();
      else drawn?.redraw();
      if (state.tile !== before.tile || state.step !== before.step) drawLayers();
      if (state.tile !== before.tile || state.variable !== before.variable) drawTile();
      plan.redraw();
    },
    destroy: () => {
      drawn?.destroy();
      plan.destroy();
    },
  };
}

export const memory: View = { id: "memory", title: "Memory", icon: "M2 2h3v3H2zM6.5 2h3v3h-3zM11 2h3v3h-3zM2 6.5h3v3H2zM6.5 6.5h3v3h-3zM11 6.5h3v3h-3zM2 11h3v3H2zM6.5 11h3v3h-3zM11 11h3v3h-3z", build };
