// Does it fit, what does it cost, and what limits it.
import { bar, empty, facts, h, panel, plainTable } from "../dom";
import { card, cyclesError, figure, memoryError, phaseBar, phaseShares, plusMinus, ranking, remediesOf, type Ranked } from "../figure";
import { outermost } from "../layers";
import { phasesOf, type Phases, type Program } from "../model";
import { bytes, cycles, integer, known, largest, percent, rate, seconds, total as sum } from "../numbers";
import type { Built, Context, View } from "../view";

function fit(program: Program): HTMLElement {
  const { fits, reason } = program.data.program;
  const remedies = remediesOf(program.data.insights?.find((one) => one.helps));
  const fullest = program.estimate("fullest_tile_bytes");
  const share = fullest === null ? null : fullest / program.capacity;
  return h(
    `section.verdict.${fits ? "good" : "bad"}`,
    { "aria-label": "Fit" },
    h("strong", null, fits ? "Fits" : "Does not fit"),
    share === null ? null : h("span", null, `The fullest tile ${fits ? "uses" : "needs"} ${share < 10 ? `${percent(share)} of` : `${integer(share)} times`} its ${bytes(program.capacity)}.`),
    share === null ? null : h("div.meter", null, bar(Math.min(1, share), fits ? "good" : "bad")),
    remedies.length ? h("div.helps", null, remedies) : null,
    reason && (remedies.length ? h("details.reason", null, h("summary", null, reason.split("\n")[0]), h("pre", null, reason)) : h("div.reason", null, reason)),
  );
}

function top(context: Context): HTMLElement {
  const { program } = context;
  const whole = program.totalCycles() || 1;
  const costly = program.planned ? program.bySize().slice(0, 8) : [];
  const rows = costly.map((one): Ranked => ({
    name: one.name,
    note: one.kind,
    value: `${cycles(one.cycles)} · ${percent((one.cycles ?? 0) / whole)}`,
    parts: phaseShares(phasesOf(one), whole),
    go: () => context.show("operations", { operation: one.id }),
  }));
  return panel("Largest operations", rows.length ? "Share of the cycles of one call." : null, ranking(rows, program.nothing));
}

/** The layers that say most: those that are no more than a frame around one other layer are left out. */
function layers(context: Context): HTMLElement | null {
  const { program } = context;
  const nodes = program.data.layers;
  const { level, opened } = program.planned ? outermost(program) : { level: [], opened: [] };
  if (!level.length) return null;
  const whole = program.totalCycles() || 1;
  const row = (one: { cycles: number | null; parent: number | null }, name: string, parts: Phases): Ranked & { cycles: number } => ({
    name,
    cycles: one.cycles ?? 0,
    note: program.pathOf(nodes, one.parent).join(" / "),
    value: `${cycles(one.cycles)} · ${percent((one.cycles ?? 0) / whole)}`,
    parts: phaseShares(parts, whole),
    go: () => context.show("program"),
  });
  const rests = opened.map((one) => {
    const own = one.operations.map((id) => program.operations[id]);
    const parts = phasesOf(one);
    for (const key of Object.keys(parts) as (keyof Phases)[]) parts[key] = sum(own, (operation) => phasesOf(operation)[key]);
    return row({ cycles: sum(own, (operation) => operation.cycles ?? 0), parent: one.parent }, `${one.name}, outside its layers`, parts);
  });
  const found = [...level.map((one) => row(one, one.name, phasesOf(one))), ...rests.filter((one) => one.cycles > 0)];
  const rows = found.sort((a, b) => b.cycles - a.cycles).slice(0, 8);
  return panel("Layers", "Name scopes of the model, with all that is in them; the Program view has the whole tree.", ranking(rows, program.nothing));
}

function build(context: Context): Built {
  const { program } = context;
  const { data } = program;
  const chip = data.chip;
  const value = (key: string) => program.estimate(key);
  const error = cyclesError(program);
  const limit = program.limit();
  const total = value("cycles");
  const streaming = (value("streaming_bytes_in") ?? 0) + (value("streaming_bytes_out") ?? 0);
  const hostBytes = (value("host_bytes_in") ?? 0) + (value("host_bytes_out") ?? 0) - streaming;
  const hostKnown = known(value("host_bytes_in")) || known(value("host_bytes_out"));
  const unknownTrips = value("unknown_trip_counts");
  const batch = data.program.batch ?? null;
  const call = program.callSeconds();
  const totals = program.tileTotals();
  const fullestTile = totals && totals.indexOf(largest(totals, Number));
  const cards = h("div.cards", null,
    card(
      "Time of a call",
      figure(call, seconds, "call_seconds"),
      ["with new arguments over the host link", batch && call ? [", ", figure(batch / call, (rows) => rate(rows, ""), "rows_per_second"), ` rows a second in batches of ${integer(batch)}`] : null],
      { text: "unknown", why: "The model of the host link has not been compared with a measurement." },
    ),
    card("Time on the chip", figure(value("seconds"), seconds, "seconds"), `at ${(chip.clock_hz / 1e9).toFixed(3)} GHz`, error),
    card("Cycles", figure(total, cycles, "cycles"), unknownTrips ? `${unknownTrips} loops counted once` : "", error),
    card("Utilisation", figure(value("utilisation"), percent, "utilisation"), "of the f16 peak", error),
    card("Fullest tile", figure(value("fullest_tile_bytes"), bytes, "fullest_tile_bytes"), `of ${bytes(program.capacity)}`, memoryError(program, fullestTile), data.program.fits ? "" : "bad"),
    card("Memory of all tiles", figure(value("total_bytes"), bytes, "total_bytes"), `of ${bytes(program.capacity * program.tileCount)}`, memoryError(program)),
    card(
      "Host link",
      figure(hostKnown ? hostBytes : null, bytes, "host_bytes"),
      `${seconds(known(value("host_seconds")) ? (value("host_seconds") ?? 0) - (value("streaming_seconds") ?? 0) : null)} a call`,
      { text: "unknown", why: "The model of the host link has not been compared with a measurement." },
    ),
    streaming
      ? card(
        "Streaming memory",
        figure(streaming, bytes, "streaming_bytes"),
        `${seconds(value("streaming_seconds"))} a call, ${value("overlapped_seconds") ? `${seconds(value("overlapped_seconds"))} of them` : "nothing"} beside the program`,
        { text: "unknown", why: "The bandwidth of the streaming memory has no primary source." },
      )
      : null,
  );
  const phases = phaseBar(program.totalPhases()) ?? empty(program.nothing);
  const streams = data.host?.streams ?? [];
  const flops = value("flops");
  const time = value("seconds");
  const reached = value("link_bytes");
  return {
    element: h("div.view", null,
      fit(program),
      cards,
      h("div.columns-2", null,
        h(
          "div.column",
          null,
          panel(
            "What limits it",
            limit ? [h("b", { "data-figure": "limit" }, limit.what), `: ${percent(limit.share)} of the ${limit.what === "Host link" ? "time of a call" : "cycles"}. ${limit.sentence}`] : null,
            phases,
          ),
          layers(context),
          top(context),
        ),
        h(
          "div.column",
          null,
          panel(
            "Program",
            null,
            facts([
              ["Target", data.program.num_ipus > 1 ? `${program.target}; figures are those of one IPU` : program.target],
              ["Tiles", `${integer(chip.num_tiles)} × ${bytes(chip.tile_memory_bytes)}, ${chip.workers_per_tile} workers each`],
              ["Peak", known(chip.peak_flops) ? rate(chip.peak_flops, "FLOP/s f16") : null],
              ["FLOPs", flops ? rate(flops, "FLOP") : null],
              ["Reached", known(flops) && time ? rate(flops / time, "FLOP/s") : null],
              ["Supersteps", program.planned ? `${integer(program.stepCount)}, loop bodies once` : "–"],
              ["Operations", data.steps ? integer(program.operations.length) : "–"],
              ["Between IPUs", reached ? `${bytes(reached)} received` : null],
              ["State kept on the chip", value("state_bytes") ? bytes(value("state_bytes")) : null],
              ["Made by", `jax_ipu ${data.jax_ipu}, modelled: nothing was run on hardware`],
            ]),
          ),
          panel(
            "Host link",
            null,
            streams.length
              ? plainTable(["Stream", "Direction", "Sent", "#Bytes"], streams.slice(0, 40).map((one) => [one.name, one.direction, one.when, bytes(one.bytes)]))
              : empty(data.host?.streams ? "The program moves nothing over the host link." : "Not known: the program was not planned."),
            streams.length > 40 ? h("p.note", null, `and ${streams.length - 40} more`) : null,
          ),
          data.phases?.length
            ? panel("Compile time", `${seconds(sum(data.phases, (one) => one.seconds))} on the host.`, facts(data.phases.map((one) => [one.name, seconds(one.seconds)])))
            : null,
        ),
      ),
      panel(
        "How far off the figures may be",
        "Cycles and bytes are those of a model. Its expected errors, by kind of operation:",
        data.accuracy?.length
          ? plainTable(["Kind", "#Cycles", "#Memory", "Basis"], data.accuracy.map((one) => [h("span", { title: [...(one.applies_to ?? []), ...(one.categories ?? [])].join(", ") }, one.kind), one.categories?.length ? "" : plusMinus(one.cycles), one.applies_to?.length ? "" : plusMinus(one.memory), one.basis]))
          : empty("No expected error is known."),
      ),
    ),
  };
}

export const summary: View = { id: "summary", title: "Summary", icon: "M2 2h5v5H2zM9 2h5v3H9zM9 7h5v7H9zM2 9h5v5H2z", build };
