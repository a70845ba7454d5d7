// uPlot with the page's colours and size.
import uPlot from "uplot";
import { h, on, perFrame } from "./dom";
import { missing } from "./numbers";
import { colour } from "./theme";
import { Sight } from "./timeline";

export interface Line {
  label: string;
  /** A colour of style/base.css. */
  colour: string;
  values: ArrayLike<number | null>;
  /** What the legend shows, where `values` are sums. */
  own?: ArrayLike<number>;
  fill?: boolean;
  dash?: number[];
  /** Draws a step at each value instead of a slope. */
  stepped?: boolean;
  width?: number;
}

export interface ChartOptions {
  label: string;
  x: { label: string; values: ArrayLike<number> };
  lines: Line[];
  format: (value: number | null) => string;
  height: number;
  /** A horizontal line: [value, label]. */
  limit?: [number, string] | null;
  /** The index of the value that was clicked or reached by the arrow keys. */
  onPick?: (index: number) => void;
  /** Draws over the plot. */
  overlay?: (plot: uPlot, context: CanvasRenderingContext2D) => void;
  /** Marks of y at powers of two, for bytes. */
  binary?: boolean;
  /** Called with the positions and the values of x at the plot's left and right edge whenever they change. */
  onRange?: (range: { left: number; width: number; from: number; to: number }) => void;
}

export interface Chart {
  element: HTMLElement;
  redraw: () => void;
  destroy: () => void;
  plot: () => uPlot | null;
}

const decimal = [1, 10, 100, 1000, 10_000, 100_000, 1e6].flatMap((power) => [power, 2 * power, 5 * power]);
const binary = Array.from({ length: 48 }, (_, exponent) => 2 ** exponent);
const font = "11px system-ui, sans-serif";

export function chart(options: ChartOptions): Chart {
  const host = h("div.chart", { role: "img", "aria-label": options.label, tabindex: options.onPick ? 0 : null });
  let plot: uPlot | null = null;
  const stepped = uPlot.paths.stepped!({ align: 1 });
  const axis = { stroke: colour("muted"), grid: { stroke: colour("grid"), width: 1 }, ticks: { stroke: colour("grid"), width: 1 }, font };

  const last = options.x.values.length - 1;
  // The part of x in sight: Ctrl + wheel and the keys + and - zoom, Shift + drag moves.
  const end = 2 * options.x.values[last] - (options.x.values[last - 1] ?? options.x.values[last] - 1);
  const sight = new Sight(end, Math.min(end, 4));
  const show = perFrame(() => plot?.setScale("x", { min: sight.from, max: sight.to }));
  const zoom = (factor: number, about: number) => {
    sight.zoom(factor, about);
    show();
  };
  const move = (from: number) => {
    sight.move(from - sight.from);
    show();
  };
  on(host, "wheel",
    (event) => {
      if (!plot || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      zoom(Math.exp(event.deltaY / 300), plot.posToVal(event.clientX - plot.rect.left, "x"));
    },
    { passive: false },
  );
  on(host, "keydown", ({ key }) => {
    if (key === "+" || key === "-") zoom(key === "+" ? 0.5 : 2, (sight.from + sight.to) / 2);
  });
  let drag: { x: number; from: number } | null = null;
  on(host, "pointerdown", (event) => {
    if (!event.shiftKey || event.button) return;
    event.preventDefault(); // uPlot, which zooms to what is dragged over, gets no mouse events
    host.setPointerCapture(event.pointerId);
    drag = { x: event.clientX, from: sight.from };
  });
  on(host, "pointermove", (event) => {
    if (drag && plot) move(drag.from - ((event.clientX - drag.x) / (plot.bbox.width / devicePixelRatio)) * sight.span);
  });
  for (const type of ["pointerup", "pointercancel"] as const) on(host, type, () => (drag = null));
  const make = (width: number): uPlot =>
    new uPlot(
      {
        width,
        height: options.height,
        padding: [10, 10, 0, 0],
        scales: {
          x: { time: false },
          y: { range: (_, __, max) => [0, Math.max(options.limit && options.limit[0] < max * 3 ? options.limit[0] : 0, max) * 1.05 || 1] },
        },
        axes: [
          { ...axis, label: options.x.label, labelSize: 18, labelFont: font, size: 28, incrs: decimal },
          { ...axis, size: 66, incrs: options.binary ? binary : undefined, values: (_, ticks) => ticks.map((value) => options.format(value).replace(/\.0+ /, " ")) },
        ],
        series: [
          { label: options.x.label, value: (_: uPlot, value: number | null) => (value === null ? missing : String(value)) },
          ...options.lines.map((line) => ({
            label: line.label,
            stroke: colour(line.colour),
            fill: line.fill ? colour(line.colour) : undefined,
            width: line.width ?? (line.fill ? 0.5 : 1.5),
            dash: line.dash,
            paths: line.stepped === false ? undefined : stepped,
            points: { show: false },
            value: (_: uPlot, value: number | null, __: number, index: number | null) => options.format(index === null || !line.own ? value : line.own[Math.min(index, last)]),
          })),
        ],
        legend: { live: width > 500 },
        cursor: { drag: { x: true, y: false, dist: 5 }, points: { size: 5 } },
        hooks: {
          draw: [
            (self) => {
              const context = self.ctx;
              context.save();
              if (options.limit) {
                const y = self.valToPos(options.limit[0], "y", true);
                if (y >= self.bbox.top) {
                  context.strokeStyle = context.fillStyle = colour("problem");
                  context.lineWidth = 2 * devicePixelRatio;
                  context.setLineDash([6 * devicePixelRatio, 4 * devicePixelRatio]);
                  context.beginPath();
                  context.moveTo(self.bbox.left, y);
                  context.lineTo(self.bbox.left + self.bbox.width, y);
                  context.stroke();
                  context.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
                  context.textAlign = "right";
                  context.fillText(options.limit[1], self.bbox.left + self.bbox.width - 4, y - 4);
                }
              }
              options.overlay?.(self, context);
              context.restore();
              const { min, max } = self.scales.x;
              sight.set(min ?? 0, max ?? end);
              options.onRange?.({ left: self.bbox.left / devicePixelRatio, width: self.bbox.width / devicePixelRatio, from: sight.from, to: sight.to });
            },
          ],
        },
      },
      // The last value is as wide as the others: it is there twice.
      [[...Array.from(options.x.values), end], ...options.lines.map((line) => [...Array.from(line.values), line.values[last]])] as uPlot.AlignedData,
      host,
    );

  const observer = new ResizeObserver(() => {
    const width = host.clientWidth;
    if (width < 50) return;
    if (plot && Math.abs(plot.width - width) > 0) plot.setSize({ width, height: options.height });
    else if (!plot) {
      plot = make(width);
      let downAt = 0;
      plot.over.addEventListener("mousedown", (event) => (downAt = event.clientX));
      plot.over.addEventListener("mouseup", (event) => {
        const index = plot?.cursor.idx;
        if (Math.abs(event.clientX - downAt) < 5 && typeof index === "number") options.onPick?.(Math.min(index, last));
      });
    }
  });
  observer.observe(host);
  return {
    element: host,
    redraw: () => plot?.redraw(false),
    plot: () => plot,
    destroy: () => {
      observer.disconnect();
      plot?.destroy();
    },
  };
}

/** Values stacked upon each other, the last on top: draw them in reverse order, filled. */
export function stacked(layers: ArrayLike<number>[]): Float64Array[] {
  const sums: Float64Array[] = [];
  for (const layer of layers) {
    const below = sums[sums.length - 1];
    sums.push(Float64Array.from(layer as ArrayLike<number>, (value, i) => value + (below ? below[i] : 0)));
  }
  return sums;
}

/** A vertical line at a value of x. */
export function mark(plot: uPlot, pen: CanvasRenderingContext2D, x: number, name: string, dashed = false): void {
  const { top, height } = plot.bbox;
  const at = plot.valToPos(x, "x", true);
  pen.strokeStyle = colour(name);
  pen.lineWidth = 2 * devicePixelRatio;
  pen.setLineDash(dashed ? [3 * devicePixelRatio, 3 * devicePixelRatio] : []);
  pen.beginPath();
  pen.moveTo(at, top);
  pen.lineTo(at, top + height);
  pen.stroke();
}

/** 0, 1, 2, ... */
export const indices = (length: number): Float64Array => Float64Array.from({ length }, (_, index) => index);
