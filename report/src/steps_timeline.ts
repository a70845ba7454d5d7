// The timeline of the Execution view: the program tree, the phases of its steps, and which tiles are busy.
import { checkbox, choice, facts, h, key, on, perFrame, rectangle, sized, tooltip, within } from "./dom";
import { lanes, shade, type Lanes, type Span } from "./lanes";
import { phases } from "./model";
import { cycles, integer, percent } from "./numbers";
import { StepPixels, type Columns } from "./step_pixels";
import { colour } from "./theme";
import { marks, Sight, Timeline } from "./timeline";
import type { Context } from "./view";

const axisHeight = 20;
const laneHeight = 18;
const phaseHeight = 48;
const balanceHeight = 34;
const tileLaneHeight = 26;
const gapHeight = 6;
const overviewHeight = 36;

interface Lane {
  kind: "axis" | "tree" | "phases" | "balance" | "tile" | "tiles";
  title: string;
  top: number;
  height: number;
  level: number;
}

const laneTitles: Record<Lanes, string> = { program: "Program", layers: "Layers", functions: "Functions" };

const cut = (text: string, letters: number): string => (text.length > letters ? `${text.slice(0, letters - 1)}…` : text);

/** `onWidth` is told how many cycles the timeline has, and whether they are those of all executions. */
export function stepsTimeline(context: Context, onWidth: (cycles: number, all: boolean) => void) {
  const { program, store } = context;
  let by: Lanes = "program";
  let spans = lanes(program, by);
  const shown = phases.filter(([phase]) => phase !== "links" || program.totalPhases().links > 0);
  const repeated = program.steps.executions.some((times) => times > 1);
  // All executions: so that widths are in the unit of the program's cycles.
  let timeline = new Timeline(program, true);
  let sight = new Sight(timeline.total, Math.min(timeline.total, 8));
  let withTiles = program.tileCompute() !== null && program.stepCount <= 20_000;
  let top = 0;
  let bottom = program.tileCount;
  let layout: Lane[] = [];
  let gutter = 0;
  let tilesHeight = 260;
  const canvas = h("canvas", { tabindex: 0, role: "application", "aria-label": "Timeline of the program. Left and right arrows select steps, plus and minus zoom, F shows all, Z zooms to the selected step." });
  const overview = h("canvas.overview", { role: "img", "aria-label": "The whole program, and the part that the timeline shows" });
  const line = h("div.hover-line", { hidden: true });
  const stage = h("div.timeline", null, overview, canvas, line);
  const tip = tooltip(stage);
  const painter = new StepPixels(program, timeline);
  let overviewImage: ImageData | null = null;
  // The pixels of the lanes: while the timeline moves, only new columns are computed.
  let kept: { shape: string; tiles: string; perPixel: number; column: number; first: Int32Array; last: Int32Array; images: Map<string, ImageData> } | null = null;

  // Read once a frame: asking the stage makes the browser lay it out.
  let inside = 1;
  const timeAt = (x: number) => sight.from + ((x - gutter) / inside) * sight.span;
  const xOf = (time: number) => gutter + ((time - sight.from) / sight.span) * inside;

  function arrange(): number {
    gutter = stage.clientWidth > 640 ? 84 : 0;
    inside = Math.max(1, stage.clientWidth - gutter);
    let at = 0;
    layout = [];
    const add = (kind: Lane["kind"], title: string, height: number, level = 0, gap = gapHeight) => {
      layout.push({ kind, title, top: at, height, level });
      at += height + gap;
    };
    add("axis", "Cycles", axisHeight, 0, 2);
    spans.forEach((_, level) => add("tree", level === 0 ? laneTitles[by] : "", laneHeight, level, level === spans.length - 1 ? gapHeight : 1));
    add("phases", "Phases", phaseHeight);
    add("balance", "Balance", balanceHeight);
    if (program.tileCompute() && store.state.tile !== null) add("tile", `Tile ${store.state.tile}`, tileLaneHeight);
    if (withTiles && program.tileCompute()) {
      tilesHeight = Math.max(80, Math.min(300, (bottom - top) * 24));
      add("tiles", `Tiles ${Math.floor(top)}–${Math.ceil(bottom) - 1}`, tilesHeight);
    }
    return at;
  }

  /** What has a colour for each pixel: phases, balance and tiles. */
  function drawPixels(pen: CanvasRenderingContext2D, cssHeight: number): void {
    const ratio = devicePixelRatio || 1;
    const left = Math.round(gutter * ratio);
    const width = canvas.width - left;
    // Columns of pixels begin at multiples of their width in time, so those that stay in sight only move.
    const shape = `${[width, ratio, store.state.tile, cssHeight]}`;
    const tiles = `${[top, bottom]}`;
    const same = kept?.shape === shape && Math.abs(sight.span / width / kept.perPixel - 1) < 1e-9 ? kept : null;
    const perPixel = same?.perPixel ?? sight.span / width;
    const column = Math.floor(sight.from / perPixel + 1e-6);
    const by = same ? within(column - same.column, -width, width) : width;
    kept = same ?? { shape, tiles, perPixel, column, first: new Int32Array(width), last: new Int32Array(width), images: new Map() };
    kept.column = column;
    const otherTiles = kept.tiles !== tiles;
    kept.tiles = tiles;
    const { first, last, images } = kept;
    const columns: Columns = { width, from: column * perPixel, perPixel, x0: by > 0 ? width - by : 0, x1: by > 0 ? width : -by, first, last };
    const move = (values: Int32Array | Uint32Array) => (by > 0 ? values.copyWithin(0, by) : values.copyWithin(-by, 0));
    move(first);
    move(last);
    const image = (lane: Lane, paint: (pixels: Uint32Array, columns: Columns) => void) => {
      let data = images.get(lane.kind);
      if (!data) images.set(lane.kind, (data = new ImageData(width, Math.round(lane.height * ratio))));
      const pixels = new Uint32Array(data.data.buffer);
      if (lane.kind === "tiles" && otherTiles) paint(pixels, { ...columns, x0: 0, x1: width });
      else {
        move(pixels);
        paint(pixels, columns);
      }
      pen.putImageData(data, left, Math.round(lane.top * ratio));
    };
    // Phases come first in the layout, and find the steps of each column for the others.
    for (const lane of layout) {
      if (lane.kind === "phases") image(lane, (pixels, columns) => painter.phases(pixels, columns));
      if (lane.kind === "balance") image(lane, (pixels, columns) => painter.balance(pixels, columns));
      if (lane.kind !== "tiles" && lane.kind !== "tile") continue;
      const [upper, lower] = lane.kind === "tiles" ? [top, bottom] : [store.state.tile as number, (store.state.tile as number) + 1];
      image(lane, (pixels, columns) => {
        const { palette } = painter;
        const { x0, x1 } = columns;
        if (lane.kind === "tiles" || program.stepCount > 200) program.computePyramid()?.draw(pixels, width, pixels.length / width, x0, x1, first, last, upper, lower, palette);
        else for (let row = 0; row < pixels.length; row += width) pixels.fill(palette[0], row + x0, row + x1);
        painter.tilesInSteps(pixels, columns, upper, lower);
      });
    }
  }

  function drawAxis(pen: CanvasRenderingContext2D): void {
    pen.fillStyle = colour("muted");
    pen.strokeStyle = colour("grid");
    const fine = sight.span < 100_000;
    for (const value of marks(sight.from, sight.to, inside / 110)) {
      const x = Math.round(xOf(value)) + 0.5;
      pen.beginPath();
      pen.moveTo(x, 12);
      pen.lineTo(x, axisHeight);
      pen.stroke();
      if (x - gutter + 40 < inside) pen.fillText(fine ? integer(value) : cycles(value), x + 3, 8);
    }
  }

  /** The spans of one level of the program tree. */
  function drawLevel(pen: CanvasRenderingContext2D, lane: Lane): void {
    const all = spans[lane.level];
    const begin = timeline.stepAt(sight.from);
    const right = gutter + inside;
    let low = 0;
    let highest = all.length;
    while (low < highest) {
      const middle = (low + highest) >> 1;
      if (all[middle].last < begin) low = middle + 1;
      else highest = middle;
    }
    const kinds = new Map<string, string>();
    const kindColour = (name: string) => {
      let found = kinds.get(name);
      if (!found) kinds.set(name, (found = colour(name)));
      return found;
    };
    let drawnTo = -1;
    for (let i = low; i < all.length; i++) {
      const span = all[i];
      const x0 = xOf(timeline.start[span.first]);
      if (x0 > right) break;
      const x1 = xOf(timeline.start[span.last + 1]);
      if (x1 < drawnTo + 0.4) continue;
      const isSelected = span.operation !== null && span.operation === store.state.operation;
      const kind = span.operation === null ? "group" : shade(program.operations[span.operation]?.kind ?? "");
      pen.fillStyle = kindColour(isSelected ? "selected" : kind);
      const w = Math.max(0.6, x1 - x0 - (x1 - x0 > 3 ? 1 : 0));
      pen.fillRect(x0, lane.top, w, lane.height);
      drawnTo = Math.max(x1, drawnTo);
      const visible = Math.max(x0, gutter);
      const room = Math.min(x1, right) - visible - 8;
      if (room > 22) {
        pen.fillStyle = kindColour(isSelected ? "on-colour" : "text");
        const full = span.trips ? `${span.label} × ${integer(span.trips)}` : span.label;
        pen.fillText(cut(full, Math.max(2, Math.floor(room / 6))), visible + 4, lane.top + lane.height / 2 + 0.5);
      }
    }
  }

  /** Borders and names of steps, where they are wide enough. */
  function drawSteps(pen: CanvasRenderingContext2D, lane: Lane): void {
    const begin = timeline.stepAt(sight.from);
    const end = timeline.stepAt(Math.min(timeline.total - 1e-9, sight.to));
    if (end - begin >= inside / 12) return;
    for (let step = begin; step <= end; step++) {
      const x = Math.round(xOf(timeline.start[step])) + 0.5;
      const x1 = xOf(timeline.start[step + 1]);
      if (x1 - x < 8) continue;
      pen.strokeStyle = colour("page");
      pen.lineWidth = 1;
      pen.beginPath();
      pen.moveTo(x, lane.top);
      pen.lineTo(x, lane.top + lane.height);
      pen.stroke();
      const visible = Math.max(x, gutter);
      const room = Math.min(x1, gutter + inside) - visible - 8;
      if (room <= 34) continue;
      const times = program.steps.executions[step];
      const lines = [program.stepTitle(step), room > 90 ? `${cycles(program.stepCycles(step))} cycles${times > 1 ? ` × ${integer(times)}` : ""}` : ""];
      pen.fillStyle = colour("on-colour");
      // A margin in the colour of compute, because the text may lie on another phase.
      pen.strokeStyle = colour("compute");
      pen.lineWidth = 3;
      lines.forEach((text, row) => {
        const line = cut(text, Math.floor(room / 6));
        pen.strokeText(line, visible + 4, lane.top + 14 + 16 * row);
        pen.fillText(line, visible + 4, lane.top + 14 + 16 * row);
      });
    }
  }

  /** Frames around the step and the tile that are selected. */
  function drawSelection(pen: CanvasRenderingContext2D, cssHeight: number): void {
    const { step, tile } = store.state;
    pen.strokeStyle = colour("selected");
    for (const lane of layout) {
      if (lane.kind === "phases" && step !== null && step < program.stepCount) {
        const x0 = xOf(timeline.start[step]);
        pen.lineWidth = 2;
        pen.strokeRect(x0, lane.top - 1, Math.max(1.5, xOf(timeline.start[step + 1]) - x0), cssHeight - lane.top - gapHeight + 2);
      }
      if (lane.kind === "tiles" && tile !== null && tile >= top && tile < bottom) {
        const each = lane.height / (bottom - top);
        pen.lineWidth = 1;
        pen.strokeRect(gutter, lane.top + (tile - top) * each - 0.5, inside, Math.max(2, each));
      }
    }
  }

  function draw(): void {
    const started = performance.now();
    const cssWidth = stage.clientWidth;
    if (cssWidth < 20 || !program.stepCount) return;
    const cssHeight = arrange();
    const pen = sized(canvas, cssWidth, cssHeight);
    drawPixels(pen, cssHeight);
    drawAxis(pen);
    pen.save();
    pen.beginPath();
    pen.rect(gutter, 0, inside, cssHeight);
    pen.clip();
    for (const lane of layout) {
      if (lane.kind === "tree") drawLevel(pen, lane);
      if (lane.kind === "phases") drawSteps(pen, lane);
    }
    drawSelection(pen, cssHeight);
    pen.restore();
    if (gutter) {
      pen.fillStyle = colour("muted");
      for (const lane of layout) if (lane.title) pen.fillText(lane.title, 2, lane.top + Math.min(lane.height, 48) / 2);
    }
    drawOverview();
    // Seen by a PerformanceObserver, which is how the time of a frame is measured.
    performance.measure("execution frame", { start: started });
    performance.clearMeasures("execution frame");
  }

  function drawOverview(): void {
    const ratio = devicePixelRatio || 1;
    const width = stage.clientWidth;
    const pen = sized(overview, width, overviewHeight);
    const left = Math.round(gutter * ratio);
    const wide = overview.width - left;
    if (overviewImage?.width !== wide) {
      overviewImage = new ImageData(wide, overview.height);
      const all: Columns = { width: wide, from: 0, perPixel: timeline.total / wide, x0: 0, x1: wide, first: new Int32Array(wide), last: new Int32Array(wide) };
      painter.phases(new Uint32Array(overviewImage.data.buffer), all);
    }
    pen.putImageData(overviewImage, left, 0);
    const x0 = gutter + (sight.from / timeline.total) * inside;
    const x1 = Math.max(x0 + 3, gutter + (sight.to / timeline.total) * inside);
    rectangle(pen, "veil", gutter, 0, x0 - gutter, overviewHeight);
    pen.fillRect(x1, 0, width - x1, overviewHeight);
    pen.strokeStyle = colour("selected");
    pen.lineWidth = 2;
    pen.strokeRect(x0, 1, x1 - x0, overviewHeight - 2);
    if (gutter) {
      pen.fillStyle = colour("muted");
      pen.fillText("Overview", 2, overviewHeight / 2);
    }
  }

  const redraw = perFrame(draw);
  const laneAt = (y: number) => layout.find((lane) => y >= lane.top && y < lane.top + lane.height);
  const tileAt = (lane: Lane, y: number) => within(Math.floor(top + ((y - lane.top) / lane.height) * (bottom - top)), 0, program.tileCount - 1);
  const spanAt = (lane: Lane, step: number): Span | undefined => spans[lane.level]?.find((span) => span.first <= step && step <= span.last);

  function describe(x: number, y: number): HTMLElement | null {
    if (x < gutter) return null;
    const step = timeline.stepAt(timeAt(x));
    const { steps } = program;
    const lane = laneAt(y);
    const times = steps.executions[step];
    const parts = program.stepPhases(step);
    const lines: [string, string][] = phases.flatMap(([key, title]) => (key !== "links" || parts.links ? [[title, cycles(parts[key])]] : []));
    if (times !== 1) lines.push(["Executions", integer(times)]);
    if (steps.compute[step] > 0) lines.push(["Balance", percent(steps.mean_compute[step] / steps.compute[step])]);
    if (lane?.kind === "tiles" || lane?.kind === "tile") {
      const tile = lane.kind === "tiles" ? tileAt(lane, y) : (store.state.tile as number);
      lines.push([`Tile ${tile}`, `${cycles(program.tileCompute()?.at(step, tile) ?? 0)} cycles busy`]);
    }
    const span = lane?.kind === "tree" ? spanAt(lane, step) : undefined;
    if (!steps.counted[step]) lines.push(["Branch", "not counted"]);
    return h("div", null, h("b", null, span ? span.label : program.stepTitle(step)), h("small", null, ` step ${step}`), facts(lines));
  }

  let drag: { x: number; y: number; from: number; top: number; moved: boolean } | null = null;
  on(canvas, "pointerdown", (event) => {
    if (event.button !== 0) return;
    drag = { x: event.offsetX, y: event.offsetY, from: sight.from, top, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  on(canvas, "pointermove", (event) => {
    if (drag) {
      const by = event.offsetX - drag.x;
      if (Math.abs(by) > 3 || Math.abs(event.offsetY - drag.y) > 3) drag.moved = true;
      if (drag.moved) {
        sight.move(drag.from - sight.from - (by / inside) * sight.span);
        redraw();
        const lane = laneAt(drag.y);
        if (lane?.kind === "tiles" && bottom - top < program.tileCount) {
          const shown = bottom - top;
          top = within(drag.top - ((event.offsetY - drag.y) / lane.height) * shown, 0, program.tileCount - shown);
          bottom = top + shown;
        }
      }
    }
    const text = drag?.moved ? null : describe(event.offsetX, event.offsetY);
    line.hidden = !text;
    if (text) line.style.left = `${event.offsetX}px`;
    if (text) tip.show(text, event.offsetX, event.offsetY + overviewHeight);
    else tip.hide();
  });
  on(canvas, "pointerup", (event) => {
    const clicked = drag && !drag.moved && event.offsetX >= gutter;
    drag = null;
    if (!clicked) return;
    const step = timeline.stepAt(timeAt(event.offsetX));
    const lane = laneAt(event.offsetY);
    const span = lane?.kind === "tree" ? spanAt(lane, step) : undefined;
    if (span && span.operation !== null) context.select({ operation: span.operation, step });
    else context.select(lane?.kind === "tiles" ? { step, tile: tileAt(lane, event.offsetY) } : { step });
  });
  on(canvas, "pointercancel", () => (drag = null));
  on(canvas, "pointerleave", () => {
    line.hidden = true;
    tip.hide();
  });
  on(canvas, "wheel",
    (event) => {
      if (!(event.ctrlKey || event.metaKey || event.shiftKey || document.activeElement === canvas || Math.abs(event.deltaX) > Math.abs(event.deltaY))) return;
      event.preventDefault();
      const lane = laneAt(event.offsetY);
      const amount = event.deltaY || event.deltaX;
      if (event.shiftKey && lane?.kind === "tiles") {
        const about = top + ((event.offsetY - lane.top) / lane.height) * (bottom - top);
        const shown = within((bottom - top) * Math.exp(amount / 400), Math.min(8, program.tileCount), program.tileCount);
        top = within(about - ((about - top) / (bottom - top)) * shown, 0, program.tileCount - shown);
        bottom = top + shown;
      } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) sight.move((event.deltaX / inside) * sight.span);
      else sight.zoom(Math.exp(event.deltaY / 300), timeAt(event.offsetX));
      redraw();
    },
    { passive: false },
  );
  const show = (step: number) => {
    const from = timeline.start[step];
    const to = timeline.start[step + 1];
    if (to < sight.from || from > sight.to) sight.move((from + to) / 2 - (sight.from + sight.to) / 2);
  };
  const zoomToStep = () => {
    const step = store.state.step;
    if (step === null || step >= program.stepCount) return;
    const wide = Math.max(8, timeline.start[step + 1] - timeline.start[step]);
    sight.set(timeline.start[step] - wide * 0.15, timeline.start[step + 1] + wide * 0.15);
    redraw();
  };
  const zoom = (factor: number) => {
    const step = store.state.step;
    const middle = (sight.from + sight.to) / 2;
    const about = step !== null && step < program.stepCount ? (timeline.start[step] + timeline.start[step + 1]) / 2 : middle;
    sight.zoom(factor, about >= sight.from && about <= sight.to ? about : middle);
    redraw();
  };
  const fit = () => {
    sight.set(0, timeline.total);
    top = 0;
    bottom = program.tileCount;
    redraw();
  };
  on(canvas, "keydown", (event) => {
    const step = store.state.step;
    const go = (to: number) => {
      context.select({ step: within(to, 0, program.stepCount - 1) });
    };
    const moves: Record<string, () => void> = {
      ArrowRight: () => (event.shiftKey ? (sight.move(sight.span / 10), redraw()) : go(step === null ? timeline.stepAt(sight.from) : step + 1)),
      ArrowLeft: () => (event.shiftKey ? (sight.move(-sight.span / 10), redraw()) : go(step === null ? timeline.stepAt(sight.from) : step - 1)),
      ArrowUp: () => zoom(0.7),
      ArrowDown: () => zoom(1 / 0.7),
      Home: () => go(0),
      End: () => go(program.stepCount - 1),
      "+": () => zoom(0.5),
      "=": () => zoom(0.5),
      "-": () => zoom(2),
      f: fit,
      z: zoomToStep,
    };
    const move = moves[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!move || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    move();
  });
  on(overview, "pointerdown", (event) => {
    const jump = (x: number) => {
      const about = ((x - gutter) / inside) * timeline.total;
      sight.move(about - (sight.from + sight.to) / 2);
      redraw();
    };
    overview.setPointerCapture(event.pointerId);
    const move = (next: PointerEvent) => jump(next.offsetX);
    on(overview, "pointermove", move);
    on(overview, "pointerup", () => overview.removeEventListener("pointermove", move), { once: true });
    jump(event.offsetX);
  });
  const observer = new ResizeObserver(redraw);
  observer.observe(stage);

  const button = (text: string, label: string, action: () => void) => h("button", { type: "button", "aria-label": label, title: label, onclick: action }, text);
  const tools = h("div.tools", null,
    h("div.choice", { role: "group", "aria-label": "Zoom" }, button("+", "Zoom in (+)", () => zoom(0.5)), button("−", "Zoom out (−)", () => zoom(2)), button("All", "Show all (F)", fit), button("Step", "Zoom to the selected step (Z)", zoomToStep)),
    program.data.functions?.length || program.data.layers?.length
      ? choice("Lanes", [["program", "Program"], ["layers", "Layers"], ["functions", "Functions"]] as const, by, (value) => {
          by = value;
          spans = lanes(program, by);
          kept = null;
          redraw();
        })
      : null,
    repeated
      ? choice("Width of a step", [["all", "All executions"], ["one", "One pass"]] as const, "all", (value) => {
          timeline = painter.timeline = new Timeline(program, value === "all");
          sight = new Sight(timeline.total, Math.min(timeline.total, 8));
          overviewImage = kept = null;
          redraw();
          onWidth(timeline.total, value === "all");
        })
      : null,
    program.tileCompute() ? checkbox("Tiles", withTiles, (on) => ((withTiles = on), redraw())) : h("span.hint", null, "The report has no cycles of single tiles."),
    h("span.legend-inline", null,
      shown.map(([phase, title]) => [key(phase), title.replace(/^[A-Z](?=[a-z])/, (letter) => letter.toLowerCase())]),
    ),
  );
  return {
    element: h("div", null, tools, stage),
    redraw,
    show: (step: number) => {
      show(step);
      redraw();
    },
    destroy: () => observer.disconnect(),
  };
}

