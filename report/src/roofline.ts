// What operations reach of the chip's arithmetic, by how much of it they do for each byte that tiles exchange.
import { empty, h, on, panel, perFrame, sized, tooltip } from "./dom";
import type { Operation } from "./format";
import { bytes, cycles, known, percent, rate } from "./numbers";
import { colour } from "./theme";
import type { Context } from "./view";

const margin = { left: 58, right: 12, top: 10, bottom: 34 };
const height = 300;

interface Point {
  operation: Operation;
  /** FLOPs for each byte, and in a second. */
  intensity: number;
  speed: number;
  cycles: number;
}

/** The powers of ten that enclose values, as exponents. */
function decades(values: number[]): [number, number] {
  const logs = values.map(Math.log10);
  return [Math.floor(Math.min(...logs)), Math.ceil(Math.max(...logs))];
}

/** A panel with the plot, in which a click selects an operation; and how it is drawn again. */
export function roofline(context: Context): { element: HTMLElement | null; redraw: () => void } {
  const { program, store } = context;
  const { peak_flops: peak, clock_hz: clock, exchange_bytes_per_cycle: perTile, num_tiles: tiles } = program.data.chip;
  if (!program.planned || !known(peak) || !known(perTile)) return { element: null, redraw: () => {} };
  const bandwidth = perTile * tiles * clock;
  const all = program.operations.filter((one) => one.flops > 0 && (one.cycles ?? 0) > 0);
  const points = all
    .filter((one) => (one.exchange_bytes ?? 0) > 0)
    .map((operation): Point => ({ operation, intensity: operation.flops / operation.exchange_bytes!, speed: (operation.flops * clock) / operation.cycles!, cycles: operation.cycles! }));
  const title = "Roofline";
  if (!points.length) return { element: panel(title, null, empty("No operation computes with what tiles exchange.")), redraw: () => {} };
  const ridge = peak / bandwidth;
  const [x0, x1] = decades([...points.map((one) => one.intensity), ridge]);
  const [y0, y1] = decades([...points.map((one) => one.speed), peak]);
  const most = Math.max(...points.map((one) => one.cycles));
  const canvas = h("canvas", { role: "img", "aria-label": "Speed of the operations over their FLOPs for each exchanged byte, below the peak of the chip. The table above has the same as numbers." });
  const stage = h("div.plan", null, canvas);
  const tip = tooltip(stage);
  let width = 0;
  const x = (value: number) => margin.left + ((Math.log10(value) - x0) / (x1 - x0 || 1)) * (width - margin.left - margin.right);
  const y = (value: number) => height - margin.bottom - ((Math.log10(value) - y0) / (y1 - y0 || 1)) * (height - margin.top - margin.bottom);
  const radius = (one: Point) => 3 + 9 * Math.sqrt(one.cycles / most);

  const draw = perFrame(() => {
    width = stage.clientWidth;
    if (width < 40) return;
    const pen = sized(canvas, width, height);
    pen.strokeStyle = colour("grid");
    pen.fillStyle = colour("muted");
    for (let power = x0; power <= x1; power++) {
      pen.strokeRect(x(10 ** power), margin.top, 0, height - margin.top - margin.bottom);
      pen.textAlign = power === x1 ? "right" : "center";
      pen.fillText(String(10 ** power), x(10 ** power), height - margin.bottom + 12);
    }
    pen.textAlign = "left";
    for (let power = y0; power <= y1; power++) {
      pen.strokeRect(margin.left, y(10 ** power), width - margin.left - margin.right, 0);
      pen.fillText(rate(10 ** power, ""), 4, y(10 ** power));
    }
    pen.fillText("FLOPs for each byte that tiles exchange", margin.left, height - 8);
    // The roof: what the exchange can feed, and what the matrix units can do.
    const corner = 10 ** x0;
    const from = Math.max(corner * bandwidth, 10 ** y0);
    pen.strokeStyle = colour("text");
    pen.lineWidth = 2;
    pen.beginPath();
    pen.moveTo(x(from / bandwidth), y(from));
    pen.lineTo(x(ridge), y(peak));
    pen.lineTo(x(10 ** x1), y(peak));
    pen.stroke();
    for (const one of points) {
      pen.fillStyle = colour(one.operation.id === store.state.operation ? "selected" : "compute");
      pen.globalAlpha = 0.75;
      pen.beginPath();
      pen.arc(x(one.intensity), y(one.speed), radius(one), 0, 2 * Math.PI);
      pen.fill();
      pen.globalAlpha = 1;
    }
  });
  const at = (event: MouseEvent): Point | undefined =>
    [...points].reverse().find((one) => Math.hypot(x(one.intensity) - event.offsetX, y(one.speed) - event.offsetY) <= radius(one) + 2);
  on(canvas, "mousemove", (event) => {
    const one = at(event);
    if (one) tip.show(h("div", null, h("b", null, one.operation.name), ` ${rate(one.speed, "FLOP/s")}, ${percent(one.speed / Math.min(peak, one.intensity * bandwidth))} of the roof; ${cycles(one.cycles)} cycles, ${bytes(one.operation.exchange_bytes)}`), event.offsetX, event.offsetY);
    else tip.hide();
  });
  on(canvas, "mouseleave", tip.hide);
  on(canvas, "click", (event) => {
    const one = at(event);
    if (one) context.select({ operation: one.operation.id });
  });
  new ResizeObserver(draw).observe(stage);
  const without = all.length - points.length;
  const element = panel(
    title,
    `The roof is the f16 peak, ${rate(peak, "FLOP/s")}, and what all tiles receive together, ${rate(bandwidth, "B/s")}. Areas are cycles.${without ? ` ${without} operations exchange nothing and are not drawn.` : ""}`,
    h("div", { "data-roofline": points.length }, stage),
  );
  return { element, redraw: draw };
}
