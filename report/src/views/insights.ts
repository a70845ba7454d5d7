// What to change, what it would save, and where memory and cycles go.
import { chart, indices, type Chart } from "../chart";
import { empty, h, link, panel } from "../dom";
import { cyclesError, memoryError, figure, plusMinus, ranking, remediesOf, stackedBar, type Ranked } from "../figure";
import type { Insight, Variable } from "../format";
import { bytes, cycles, integer, known, percent, seconds, signed, type Maybe, largest } from "../numbers";
import type { Selection } from "../store";
import type { Built, Context, View } from "../view";

// The parts of what is always live: key, title, colour.
const partColours: [string, string, string][] = [["code", "Code", "code"], ["vertex_state", "Vertex state", "vertex"], ["constants", "Constants", "constants"], ["variables", "Variables", "variables"]];
const words = { problem: "Problem", advice: "Advice", info: "Note" };
const order = { problem: 0, advice: 1, info: 2 };

function insightCard(context: Context, one: Insight): HTMLElement {
  const { program } = context;
  const { rows } = one;
  const remedies = remediesOf(one);
  const savings: [string, Maybe, (value: Maybe) => string][] = [
    // Of another batch, cycles say something for each row only.
    ...(rows ? ([["cycles a row", rows.cycles[0] - rows.cycles[1], cycles], ["a row", rows.seconds[0] - rows.seconds[1], seconds]] as [string, Maybe, (value: Maybe) => string][]) : [["cycles", one.saving?.cycles, cycles] as [string, Maybe, (value: Maybe) => string]]),
    ["on all tiles", one.saving?.bytes, bytes],
    ["on the fullest tile", one.saving?.fullest_tile_bytes, bytes],
  ];
  const found = savings.filter(([, value]) => known(value) && value !== 0);
  const links = [
    ...(one.operations ?? []).slice(0, 4).flatMap((id) => (program.operations[id] ? [link(program.operations[id].name, () => context.show("operations", { operation: id }))] : [])),
    ...(one.variables ?? []).slice(0, 4).flatMap((id) => (program.variables[id] ? [link(program.variables[id].name, () => context.show("liveness", { variable: id }))] : [])),
    ...(one.tiles ?? []).slice(0, 4).map((tile) => link(`tile ${tile}`, () => context.show("memory", { tile }))),
  ];
  return h(
    "article",
    { class: `insight ${one.severity}`, "data-insight": one.id },
    h("div.insight-head", null, h("span.severity", null, words[one.severity] ?? one.severity), h("h3", null, one.title)),
    h("p", null, one.detail),
    one.parts ? stackedBar("Bytes by part", partColours.map(([part, title, colour]) => [title, colour, one.parts?.[part] ?? 0]), bytes) : null,
    remedies.length
      ? h("div.action", null, remedies)
      : one.action
        ? h("p.action", null, h("b", null, "What to do: "), one.action)
        : null,
    found.length
      ? h("p.saving", null, h("b", null, "By the model: "), found.map(([what, value, format]) => h(`span.${(value as number) > 0 ? "better" : "worse"}`, null, signed(-(value as number), format), ` ${what}`)))
      : null,
    links.length ? h("p.links", null, links) : null,
  );
}

function histogram(totals: Float64Array): Chart {
  const bins = 40;
  const most = largest(totals, Number);
  const least = -largest(totals, (value) => -value, -most);
  const wide = (most - least || 1024) / bins;
  const counts = new Float64Array(bins);
  for (const value of totals) counts[Math.min(bins - 1, Math.floor((value - least) / wide))]++;
  const edges = Float64Array.from({ length: bins }, (_, i) => (least + i * wide) / 1024);
  return chart({
    label: "How many tiles use how much memory",
    height: 200,
    x: { label: "KiB in use", values: edges },
    lines: [{ label: "Tiles", colour: "variables", values: counts, fill: true, stepped: true }],
    format: integer,
  });
}

function build(context: Context): Built {
  const { program } = context;
  const totals = program.tileTotals();
  const all = [...(program.data.insights ?? [])].sort((a, b) => (order[a.severity] ?? 3) - (order[b.severity] ?? 3));
  const advice = all.filter((one) => one.severity !== "info");
  const notes = all.filter((one) => one.severity === "info");
  const fullest = totals ? [...totals.keys()].sort((a, b) => totals[b] - totals[a]).slice(0, 5) : [];
  const ranked = (name: string, note: string, amount: number, most: number, format: (value: Maybe) => string, colour: string, view: string, selection: Partial<Selection>): Ranked => ({
    name,
    note,
    value: figure(amount, format),
    parts: [[amount / (most || 1), colour]],
    go: () => context.show(view, selection),
  });
  const variables = (keep: (one: Variable) => boolean, colour: string): Ranked[] => {
    const found = program.variables.filter(keep).sort((a, b) => b.bytes - a.bytes).slice(0, 5);
    return found.map((one) => ranked(one.name, one.argument && one.argument !== one.name ? one.argument : `${integer(one.tiles)} tiles`, one.bytes, found[0].bytes, bytes, colour, "liveness", { variable: one.id }));
  };
  const { steps } = program;
  const lost = (step: number) => (steps.compute[step] - steps.mean_compute[step]) * program.times(step);
  const unbalanced = [...indices(program.stepCount)]
    .filter((step) => lost(step) > 0)
    .sort((a, b) => lost(b) - lost(a))
    .slice(0, 5);
  const plot = totals ? histogram(totals) : null;
  const whole = program.totalCycles() || 1;
  const costly = program.planned ? program.bySize().slice(0, 5) : [];
  const clock = program.data.chip.clock_hz;
  return {
    element: h("div.view", null,
      panel(
        "What to do",
        program.planned ? `Savings are computed by the model; cycles have an expected error of ${cyclesError(program).text}, memory: ${memoryError(program).text}.` : null,
        advice.length ? h("div.insights", null, advice.map((one) => insightCard(context, one))) : empty("The report has no advice: nothing but the program itself was compiled."),
      ),
      h("div.columns-2", null,
        panel("Fullest tiles", `Of ${bytes(program.capacity)} each, at their fullest moment.`, ranking(fullest.map((tile) => ranked(`Tile ${tile}`, percent(totals![tile] / program.capacity), totals![tile], program.capacity, bytes, "variables", "memory", { tile })), "The memory of the tiles is not known.")),
        panel("Tiles by memory in use", null, plot ? plot.element : empty("The memory of the tiles is not known.")),
        panel("Largest always-live variables", "They keep their memory for the whole program.", ranking(variables((one) => one.lasting, "variables"), "No variable is kept for the whole program.")),
        panel("Largest exchange buffers", "They hold what the exchange delivers.", ranking(variables((one) => one.role === "exchange buffer", "exchange"), program.planned ? "No exchange buffer is listed." : program.nothing)),
        panel("Where the cycles go", null, ranking(costly.map((one) => ranked(one.name, `${percent((one.cycles ?? 0) / whole)}, error ${plusMinus(program.accuracyOf(one.kind)?.cycles)}`, one.cycles ?? 0, costly[0].cycles ?? 0, cycles, "compute", "operations", { operation: one.id })), program.nothing)),
        panel("Worst balance of tiles", "Cycles that the mean tile waits for the slowest.", ranking(unbalanced.map((step) => ranked(program.stepTitle(step), `step ${step}, ${percent(steps.mean_compute[step] / steps.compute[step])} busy, ${seconds(lost(step) / clock)}`, lost(step), lost(unbalanced[0]), cycles, "sync", "execution", { step })), program.planned ? "Every step is balanced." : program.nothing)),
      ),
      notes.length ? panel("Notes", null, h("div.insights", null, notes.map((one) => insightCard(context, one)))) : null,
    ),
    destroy: () => plot?.destroy(),
  };
}

export const insights: View = { id: "insights", title: "Insights", icon: "M8 1a5 5 0 0 0-3 9v2h6v-2a5 5 0 0 0-3-9zM5.5 13h5v1.5h-5z", build };
