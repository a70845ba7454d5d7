// The timeline of the views Run and Schedule: lines of events on one axis, those of the host, measured, above those of the chip, modelled.
import { facts, h, key, on, perFrame, sized, tooltip, within } from "./dom";
import type { RunLine } from "./format";
import { cycles, integer, seconds } from "./numbers";
import { colour } from "./theme";
import { marks, Sight } from "./timeline";

const axisHeight = 20;
const headHeight = 20;
const rowHeight = 18;
const gap = 6;
// Calls of Python may be nested deeply; what is deeper is drawn by none of its callers.
const deepest = 8;

/** Kinds of events with their titles and colours of style/base.css. */
export const kinds: Record<string, [string, string]> = {
  dispatch: ["Dispatch", "kind-0"],
  transfer: ["Transfers", "kind-1"],
  callback: ["Callbacks", "late"],
  wait: ["Waiting", "kind-7"],
  compile: ["Compiler", "kind-4"],
  python: ["Python", "group"],
  other: ["Other", "rest"],
  model: ["The model computes", "kind-2"],
  program: ["Program", "kind-6"],
  operation: ["Operations", "kind-5"],
  compute: ["Compute", "compute"],
  exchange: ["Exchange", "exchange"],
  sync: ["Sync", "sync"],
  "host link": ["Host link", "temporaries"],
  links: ["IPU-Links", "links"],
  forward: ["Micro-batches, forward", "kind-0"],
  backward: ["Micro-batches, backward", "kind-1"],
  idle: ["Idle", "problem"],
};

interface Row {
  line: RunLine;
  title: string;
  top: number;
  /** Events in the order in which they begin; none overlaps another. */
  events: number[];
}

export const ns = (value: number | null | undefined) => seconds(value === null || value === undefined ? value : value * 1e-9);

/** An axis label that differs from its neighbours. */
const mark = (value: number, span: number) => (span < 20_000 ? `${integer(value)} ns` : span < 20_000_000 ? `${integer(value / 1e3)} µs` : `${integer(value / 1e6)} ms`);

/** The events of a line by how deeply they are nested. */
export function nested(line: RunLine): number[][] {
  const levels: number[][] = [];
  const ends: number[] = [];
  line.begin.forEach((begin, index) => {
    while (ends.length && ends[ends.length - 1] <= begin) ends.pop();
    if (ends.length < deepest) (levels[ends.length] ??= []).push(index);
    ends.push(begin + line.duration[index]);
  });
  return levels;
}

/** Times are nanoseconds, or cycles if `inCycles`; `stops` are begins and durations that N goes to, one after the other. */
export function runTimeline(run: { duration: number; lines: RunLine[] }, what: string, stops: { begin: number; duration: number }[], next: string, inCycles = false) {
  const text = inCycles ? (value: number) => `${cycles(value)} cycles` : ns;
  const sight = new Sight(run.duration, Math.min(run.duration, 20));
  const canvas = h("canvas", { tabindex: 0, role: "application", "aria-label": `${what}. Left and right arrows move, plus and minus zoom, F shows all, N goes to the ${next}.` });
  const line = h("div.hover-line", { hidden: true });
  const stage = h("div.timeline", null, canvas, line);
  const tip = tooltip(stage);
  let gutter = 0;
  let inside = 1;
  const rows: Row[] = [];
  const heads: { top: number; text: string; colour: string }[] = [];
  let height = axisHeight;
  for (const clock of ["measured", "modelled"] as const) {
    const lines = run.lines.filter((one) => one.clock === clock);
    if (!lines.length) continue;
    if (!inCycles) heads.push({ top: height, text: clock === "measured" ? "Measured: what this machine did" : "Modelled: what the chip would do", colour: clock === "measured" ? "accent" : "good" });
    if (!inCycles) height += headHeight;
    for (const one of lines) {
      nested(one).forEach((events, level) => {
        rows.push({ line: one, title: level ? "" : one.name, top: height, events });
        height += rowHeight + 1;
      });
      height += gap;
    }
  }
  const timeAt = (x: number) => sight.from + ((x - gutter) / inside) * sight.span;
  const xOf = (time: number) => gutter + ((time - sight.from) / sight.span) * inside;
  const endOf = (row: Row, at: number) => row.line.begin[row.events[at]] + row.line.duration[row.events[at]];

  /** The first event of a row that ends after a time. */
  function after(row: Row, time: number): number {
    let low = 0;
    let high = row.events.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (endOf(row, middle) <= time) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  const redraw = perFrame(() => {
    const width = stage.clientWidth;
    if (width < 20) return;
    gutter = width > 640 ? 150 : inCycles ? 44 : 0;
    inside = Math.max(1, width - gutter);
    const pen = sized(canvas, width, height);
    const muted = colour("muted");
    const dark = colour("text");
    pen.strokeStyle = colour("grid");
    for (const value of marks(sight.from, sight.to, inside / 110)) {
      const x = Math.round(xOf(value)) + 0.5;
      pen.beginPath();
      pen.moveTo(x, 12);
      pen.lineTo(x, height);
      pen.stroke();
      pen.fillStyle = muted;
      if (x + 60 < width) pen.fillText(inCycles ? cycles(value) : mark(value, sight.span), x + 3, 8);
    }
    pen.save();
    pen.beginPath();
    pen.rect(gutter, 0, inside, height);
    pen.clip();
    for (const row of rows) {
      let drawnTo = -1;
      for (let at = after(row, sight.from); at < row.events.length; at++) {
        const index = row.events[at];
        const x0 = xOf(row.line.begin[index]);
        if (x0 > width) break;
        const x1 = Math.max(x0 + 0.8, xOf(endOf(row, at)));
        if (x1 < drawnTo + 0.4) continue;
        const event = row.line.event[index];
        pen.fillStyle = colour(kinds[row.line.kinds[event]]?.[1] ?? "rest");
        pen.fillRect(x0, row.top, Math.max(0.8, x1 - x0 - (x1 - x0 > 3 ? 1 : 0)), rowHeight);
        drawnTo = Math.max(x1, drawnTo);
        const visible = Math.max(x0, gutter);
        const room = Math.min(x1, width) - visible - 8;
        if (room > 22) {
          const name = row.line.names[event];
          const letters = Math.floor(room / 6);
          pen.fillStyle = ["compute", "exchange", "sync", "host link", "links", "callback", "idle"].includes(row.line.kinds[event]) ? colour("on-bar") : dark;
          pen.fillText(name.length > letters ? `${name.slice(0, Math.max(1, letters - 1))}…` : name, visible + 4, row.top + rowHeight / 2 + 0.5);
        }
      }
    }
    pen.restore();
    for (const head of heads) {
      pen.fillStyle = colour(head.colour);
      pen.fillRect(0, head.top + headHeight - 3, width, 1);
      pen.fillText(head.text, 2, head.top + 8);
    }
    if (gutter) {
      pen.fillStyle = muted;
      for (const row of rows) if (row.title) pen.fillText(gutter < 100 ? row.title.split(",")[0] : row.title.length > 24 ? `${row.title.slice(0, 23)}…` : row.title, 2, row.top + rowHeight / 2);
    }
  });

  const rowAt = (y: number) => rows.find((row) => y >= row.top && y < row.top + rowHeight);

  function describe(x: number, y: number): HTMLElement | null {
    const row = rowAt(y);
    if (!row || x < gutter) return null;
    const time = timeAt(x);
    // Short events are at least a pixel wide.
    const at = after(row, time - sight.span / inside);
    const index = row.events[at];
    if (index === undefined || row.line.begin[index] > time + sight.span / inside) return null;
    const event = row.line.event[index];
    return h("div", null,
      h("b", null, row.line.names[event] || kinds[row.line.kinds[event]][0]),
      h("small", null, ` ${inCycles ? row.line.name : row.line.clock}`),
      facts([
        ["Kind", kinds[row.line.kinds[event]]?.[0] ?? row.line.kinds[event]],
        ["Begins", text(row.line.begin[index])],
        ["Takes", text(row.line.duration[index])],
      ]),
    );
  }

  const show = (begin: number, duration: number) => {
    const wide = Math.max(20, duration);
    sight.set(begin - wide * 0.15, begin + wide * 1.15);
    redraw();
  };
  const fit = () => {
    sight.set(0, run.duration);
    redraw();
  };
  const zoom = (factor: number) => {
    sight.zoom(factor, (sight.from + sight.to) / 2);
    redraw();
  };
  const move = (by: number) => {
    sight.move(by * sight.span);
    redraw();
  };
  let shown = -1;
  const showNext = () => {
    if (!stops.length) return;
    shown = (shown + 1) % stops.length;
    show(stops[shown].begin, stops[shown].duration);
  };

  let drag: { x: number; from: number } | null = null;
  on(canvas, "pointerdown", (event) => {
    if (event.button !== 0) return;
    drag = { x: event.offsetX, from: sight.from };
    canvas.setPointerCapture(event.pointerId);
  });
  on(canvas, "pointermove", (event) => {
    if (drag) {
      sight.move(drag.from - sight.from - ((event.offsetX - drag.x) / inside) * sight.span);
      redraw();
    }
    const found = drag ? null : describe(event.offsetX, event.offsetY);
    line.hidden = !found;
    if (found) {
      line.style.left = `${event.offsetX}px`;
      tip.show(found, event.offsetX, event.offsetY);
    } else tip.hide();
  });
  on(canvas, "pointerup", () => (drag = null));
  on(canvas, "pointercancel", () => (drag = null));
  on(canvas, "pointerleave", () => {
    line.hidden = true;
    tip.hide();
  });
  on(canvas, "dblclick", (event) => {
    const row = rowAt(event.offsetY);
    const index = row?.events[after(row, timeAt(event.offsetX))];
    if (row && index !== undefined && row.line.begin[index] <= timeAt(event.offsetX)) show(row.line.begin[index], row.line.duration[index]);
  });
  on(canvas, "wheel",
    (event) => {
      if (!(event.ctrlKey || event.metaKey || document.activeElement === canvas || Math.abs(event.deltaX) > Math.abs(event.deltaY))) return;
      event.preventDefault();
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) sight.move((event.deltaX / inside) * sight.span);
      else sight.zoom(Math.exp(event.deltaY / 300), within(timeAt(event.offsetX), sight.from, sight.to));
      redraw();
    },
    { passive: false },
  );
  on(canvas, "keydown", (event) => {
    const moves: Record<string, () => void> = { ArrowRight: () => move(0.1), ArrowLeft: () => move(-0.1), ArrowUp: () => zoom(0.7), ArrowDown: () => zoom(1 / 0.7), "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), f: fit, n: showNext };
    const action = moves[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!action || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    action();
  });
  const observer = new ResizeObserver(redraw);
  observer.observe(stage);
  const found = new Set(run.lines.flatMap((one) => one.kinds));
  const button = (name: string, label: string, action: () => void) => h("button", { type: "button", "aria-label": label, title: label, onclick: action }, name);
  const tools = h("div.tools", null,
    h("div.choice", { role: "group", "aria-label": "Zoom" }, button("+", "Zoom in (+)", () => zoom(0.5)), button("−", "Zoom out (−)", () => zoom(2)), button("All", "Show all (F)", fit), button(`Next ${next}`, `Zoom to the next ${next} (N)`, showNext)),
  );
  const legend = h("ul.legend", null, Object.entries(kinds).map(([kind, [title, name]]) => (found.has(kind) ? h("li", null, key(name), title) : null)));
  return { element: h("div", null, tools, stage, legend), show, redraw, destroy: () => observer.disconnect() };
}
