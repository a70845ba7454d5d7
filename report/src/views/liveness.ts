// What is live when: curves over the program, the lives of variables, and several steps side by side.
import { chart, indices, mark, type Chart } from "../chart";
import { arrows, checkbox, choice, empty, h, key, link, on, panel, perFrame, quiet, rectangle, replace, sized, tooltip, within } from "../dom";
import { figure, memoryError, memorySentence } from "../figure";
import type { Variable } from "../format";
import { groupings } from "../groups";
import { bytes, integer, percent, largest } from "../numbers";
import { colour } from "../theme";
import { numbers, Table, texts, type TableColumn } from "../table";
import type { Built, Context, View } from "../view";

const rowHeight = 15;
const shownLives = 48;

/** The lives of the largest variables as bars over the steps of the plot above. */
function lives(context: Context, lateOnly: () => boolean) {
  const { program, store } = context;
  const canvas = h("canvas", { role: "img", "aria-label": "Lives of the largest variables; the table below has the same as numbers." });
  const element = h("div.plan", null, h("div.lives", null, canvas));
  const tip = tooltip(element);
  let range = { left: 66, width: 100, from: 0, to: program.stepCount };
  let rows: Variable[] = [];
  const draw = perFrame(() => {
    rows = program.variables
      .filter((one) => !one.lasting && one.first_step !== null && (!lateOnly() || program.keptTooLong(one) > 0))
      .sort((a, b) => b.bytes - a.bytes)
      .slice(0, shownLives)
      .sort((a, b) => (a.first_step ?? 0) - (b.first_step ?? 0));
    const chosen = store.state.variable === null ? undefined : program.variables[store.state.variable];
    if (chosen && !chosen.lasting && chosen.first_step !== null && !rows.includes(chosen)) rows.unshift(chosen);
    const height = Math.max(1, rows.length) * rowHeight + 4;
    const pen = sized(canvas, element.clientWidth, height);
    const { left, width: inner, from, to } = range;
    const x = (step: number) => left + ((step - from) / (to - from || 1)) * inner;
    pen.fillStyle = colour("muted");
    if (!rows.length) {
      pen.fillText(lateOnly() ? "No variable is kept longer than it is used." : "No variable lives for a part of the program only.", left, 10);
      return;
    }
    pen.save();
    pen.beginPath();
    pen.rect(left, 0, inner, height);
    pen.clip();
    rows.forEach((one, row) => {
      const top = row * rowHeight + 3;
      const start = x(one.first_step as number);
      const end = Math.max(start + 2, x((one.last_step as number) + 1));
      const used = program.keptTooLong(one) > 0 ? Math.max(start, x((one.last_use_step as number) + 1)) : end;
      const pieces = one.ranges?.length ? one.ranges : [one.first_step as number, one.last_step as number];
      for (let i = 0; i + 1 < pieces.length; i += 2) {
        const from = x(pieces[i]);
        const to = Math.max(from + 2, x(pieces[i + 1] + 1));
        pen.fillStyle = colour(one === chosen ? "selected" : one.role === "exchange buffer" ? "exchange" : one.role === "constant" ? "constants" : "temporaries");
        pen.fillRect(from, top, Math.min(used, to) - from, rowHeight - 4);
        if (used < to) {
          rectangle(pen, "late", Math.max(used, from), top, to - Math.max(used, from), rowHeight - 4);
        }
      }
      const text = `${one.name}  ${bytes(one.bytes)}`;
      const wide = pen.measureText(text).width;
      const visibleStart = Math.max(start, left);
      const write = (x: number, name: string) => {
        pen.fillStyle = colour(name);
        pen.fillText(text, x, top + rowHeight / 2 - 2);
      };
      const onBar = one === chosen ? "on-colour" : "on-bar";
      const room = (until: number) => Math.min(until, left + inner) - visibleStart > wide + 10;
      if (room(used)) write(visibleStart + 4, onBar);
      else if (end + wide + 6 < left + inner) write(Math.max(end, left) + 4, "text");
      else if (start - wide - 6 > left) write(start - wide - 4, "text");
      else if (room(end)) write(visibleStart + 4, onBar);
    });
    if (store.state.step !== null) {
      pen.strokeStyle = colour("selected");
      pen.strokeRect(x(store.state.step), -1, Math.max(1, x(store.state.step + 1) - x(store.state.step)), height + 2);
    }
    pen.restore();
  });
  const rowAt = (event: MouseEvent) => rows[Math.floor((event.offsetY - 2) / rowHeight)];
  on(canvas, "click", (event) => {
    const one = rowAt(event);
    if (one) context.select({ variable: one.id });
  });
  on(canvas, "mousemove", (event) => {
    const one = rowAt(event);
    if (!one) return tip.hide();
    const late = program.keptTooLong(one);
    tip.show(`${one.name}: ${bytes(one.bytes)}, live in steps ${one.first_step} to ${one.last_step}${late ? `, last used in step ${one.last_use_step}` : ""}`, event.offsetX, event.offsetY - (canvas.parentElement?.scrollTop ?? 0));
  });
  on(canvas, "mouseleave", tip.hide);
  return {
    element,
    draw,
    setRange: (next: typeof range) => {
      range = next;
      draw();
    },
  };
}

function build(context: Context): Built {
  const { program, store } = context;
  const live = program.liveness();
  const heading = "Liveness";
  const late = program.variables.filter((one) => program.keptTooLong(one) > 0);
  const peak = program.data.memory?.peak_step ?? null;
  let measure: "all" | "fullest" = "all";
  let onlyLate = false;
  const pinned: number[] = [];
  const kept = { text: "", by: "" };
  let drawn: Chart | null = null;
  const plotHost = h("div", null);
  const tableHost = h("div", null);
  const life = lives(context, () => onlyLate);
  let table: Table<Variable> | null = null;

  const plot = () => {
    drawn?.destroy();
    if (!live) return;
    const all = measure === "all";
    const always = new Float64Array(live.steps).fill(live.always);
    drawn = chart({
      label: all ? "Bytes live on all tiles over the program" : "Bytes live on the fullest tile over the program",
      height: 260,
      x: { label: "Step of the program", values: indices(live.steps) },
      lines: all
        ? [
            { label: "Not always live", colour: "temporaries", values: live.notAlways.map((value) => value + live.always), own: live.notAlways, fill: true },
            { label: "Always live", colour: "variables", values: always, fill: true },
          ]
        : [{ label: "Fullest tile", colour: "temporaries", values: live.maxTile, fill: true }],
      format: bytes,
      binary: true,
      limit: all ? null : [program.capacity, `${bytes(program.capacity)} a tile`],
      onPick: (step) => context.select({ step }),
      onRange: life.setRange,
      overlay: (self, pen) => {
        const x = (step: number) => self.valToPos(step, "x", true);
        const { top, height } = self.bbox;
        const ratio = devicePixelRatio;
        const one = store.state.variable === null ? undefined : program.variables[store.state.variable];
        if (one && (one.lasting || one.first_step !== null)) {
          const from = one.lasting ? 0 : (one.first_step as number);
          const to = one.lasting ? live.steps - 1 : (one.last_step as number);
          const used = program.keptTooLong(one) > 0 ? (one.last_use_step as number) : to;
          pen.beginPath();
          pen.rect(self.bbox.left, top, self.bbox.width, height);
          pen.clip();
          pen.globalAlpha = 0.22;
          rectangle(pen, "selected", x(from), top, Math.max(2, x(used + 1) - x(from)), height);
          if (used < to) {
            rectangle(pen, "late", x(used + 1), top, x(to + 1) - x(used + 1), height);
          }
          pen.globalAlpha = 1;
          pen.textAlign = "left";
          pen.fillStyle = colour("text");
          pen.font = `${11 * ratio}px system-ui, sans-serif`;
          pen.fillText(`life of ${one.name}`, Math.max(self.bbox.left, Math.min(x(from), self.bbox.left + self.bbox.width - 140 * ratio)) + 4, top + 12 * ratio);
        }
        for (const step of pinned) mark(self, pen, step + 0.5, "text", true);
        if (store.state.step !== null) mark(self, pen, store.state.step + 0.5, "selected");
      },
    });
    arrows(drawn.element, (by) => context.select({ step: within((store.state.step ?? -1) + by, 0, live.steps - 1) }));
    replace(plotHost, drawn.element);
  };

  const columns = (steps: number[]): TableColumn<Variable>[] => [
    texts("name", "Variable", 230, (row) => row.name, { render: (row) => [row.name, program.keptTooLong(row) ? h("span.flag", { title: `kept ${program.keptTooLong(row)} steps after its last use` }, "late") : null] }),
    numbers("bytes", "Bytes", 84, (row) => row.bytes, bytes, { help: "A sum has what is live at different times as well", sum: true }),
    ...steps.map((step) =>
      numbers<Variable>(`step-${step}`, `In step ${step}`, 96, (row) => (program.isLive(row, step) ? row.bytes : 0), bytes, {
        render: (row) => (program.isLive(row, step) ? bytes(row.bytes) : ""),
        share: (row) => (program.isLive(row, step) ? row.bytes / most : 0),
        sum: true,
      }),
    ),
    numbers("max_tile_bytes", "On one tile", 100, (row) => row.max_tile_bytes, bytes),
    numbers("tiles", "Tiles", 66, (row) => row.tiles, integer),
    texts("role", "Role", 136, (row) => (row.lasting ? `${row.role}, always` : row.role)),
    numbers("first", "From", 60, (row) => (row.lasting ? 0 : row.first_step), integer),
    numbers("last", "To", 60, (row) => (row.lasting ? null : row.last_step), integer, { render: (row) => (row.lasting ? "end" : integer(row.last_step)), saved: (row) => (row.lasting ? "end" : row.last_step) }),
    numbers("used", "Last use", 84, (row) => row.last_use_step, integer),
    numbers("late", "Kept too long", 116, program.keptTooLong, integer, { help: "Steps for which it is kept after its last use", render: (row) => figure(program.keptTooLong(row), (steps) => (steps ? integer(steps) : "")) }),
    texts("type", "Type", 150, (row) => row.dtype ? `${row.dtype}[${row.shape?.join(",") ?? ""}]` : null),
    texts("layer", "Layer", 150, (row) => program.layerOf(row) || null),
    texts("argument", "Argument", 140, (row) => row.argument),
    texts("source", "Source", 130, (row) => program.sourceOf(row)),
  ];
  const most = largest(program.variables, (one) => one.bytes, 1);

  const sides = () => {
    const chosen = store.state.step;
    const steps = [...new Set([...pinned, ...(chosen === null ? [] : [chosen])])];
    const rows = program.variables.filter((one) => (steps.length ? steps.some((step) => program.isLive(one, step)) : true) && (!onlyLate || program.keptTooLong(one) > 0));
    table = new Table<Variable>({
      id: "variables",
      label: "Variables",
      rows,
      columns: columns(steps),
      key: (row) => row.id,
      selected: () => store.state.variable,
      onSelect: (row) => context.select({ variable: row.id }),
      sort: { column: steps.length ? `step-${steps[steps.length - 1]}` : "bytes", descending: true },
      height: 420,
      none: onlyLate ? "No variable is kept longer than it is used." : "No listed variable is live in these steps.",
      filter: (row) => [row.name, row.role, row.dtype, row.argument, program.layerOf(row), program.sourceOf(row)].join(" "),
      choose: true,
      groupings: groupings(program, (row) => row, ["layer"]),
      state: kept,
    });
    const summary = live && steps.map((step) => h("div.side", null, h("b", null, `Step ${step}`), h("span", null, program.stepTitle(step)), figure(live.always + live.notAlways[step], bytes, `live_${step}`), h("small", null, `${bytes(live.notAlways[step])} not always live; fullest tile ${integer(live.fullest[step])} with ${bytes(live.maxTile[step])}`), pinned.includes(step) ? quiet("Unpin", () => (pinned.splice(pinned.indexOf(step), 1), sides(), drawn?.redraw())) : quiet("Pin, to compare with another step", () => (pinned.push(step), sides(), drawn?.redraw()))));
    replace(tableHost, panel(steps.length ? "Live in the chosen steps" : "Variables", steps.length || !live ? null : "Choose a step in the plot to see what is live in it; pin it to see several side by side.", summary?.length ? h("div.sides", null, summary) : null, table.element));
  };

  plot();
  sides();
  life.draw();
  const error = memoryError(program);
  const peakText = live && peak !== null && peak < live.steps ? [" The fullest moment is ", link(`step ${peak}`, () => context.select({ step: peak })), `: ${bytes(live.maxTile[peak])} (${percent(live.maxTile[peak] / program.capacity)}) on tile ${integer(live.fullest[peak])}.`] : null;
  return {
    element: h("div.view", null,
      panel(
        heading,
        live ? [figure(live.always, bytes, "always_live"), " is always live.", peakText, ` ${memorySentence(error)}`] : null,
        live
          ? [
              h("div.tools", null,
                choice("Measure", [["all", "All tiles"], ["fullest", "Fullest tile"]] as const, measure, (value) => ((measure = value), plot())),
                checkbox(`Only kept too long (${late.length})`, false, (on) => ((onlyLate = on), life.draw(), sides())),
                h("span.legend-inline", null, key("temporaries"), "live", key("late"), "kept after its last use"),
              ),
              plotHost,
              life.element,
            ]
          : empty("The steps of this program are not known, so there is no curve: below is what must be in memory at its fullest moment."),
      ),
      tableHost,
    ),
    update: (state, before) => {
      if (state.step !== before.step) sides();
      else table?.reveal(state.variable);
      drawn?.redraw();
      life.draw();
    },
    destroy: () => drawn?.destroy(),
  };
}

export const liveness: View = { id: "liveness", title: "Liveness", icon: "M1 13h14v1H1zM1 12l3-6 3 3 3-7 5 10z", build };
