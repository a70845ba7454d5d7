// The pixels of the Execution view's canvas: what the steps in each column of pixels do.
import { phases, type Phases, type Program } from "./model";
import { heat, pixel } from "./theme";
import type { Timeline } from "./timeline";

/** Columns of pixels: all have `perPixel` cycles, and the first begins at the time `from`. Those in [x0, x1) are to be drawn. */
export interface Columns {
  width: number;
  from: number;
  perPixel: number;
  x0: number;
  x1: number;
  /** The first and the last step of each column, which `phases` finds. */
  first: Int32Array;
  last: Int32Array;
}

/** Each method draws a lane, of the height that `pixels` have. */
export class StepPixels {
  readonly palette = heat();
  private readonly fade: Record<keyof Phases | "idle", number> = { exchange: 0, links: 0, compute: 0, sync: 0, idle: 0 };

  constructor(
    private readonly program: Program,
    public timeline: Timeline,
  ) {
    for (const [phase] of phases) this.fade[phase] = pixel(phase);
    this.fade.idle = pixel("cell");
  }

  /** Phases as stacked parts. */
  phases(pixels: Uint32Array, { width, from, perPixel, x0, x1, first, last }: Columns): void {
    const { program, timeline, fade } = this;
    const height = pixels.length / width;
    const a = new Float64Array(phases.length);
    const b = new Float64Array(phases.length);
    let step = timeline.stepAt(from + x0 * perPixel);
    timeline.phasesTo(step, from + x0 * perPixel, a);
    const n = program.stepCount;
    for (let x = x0; x < x1; x++) {
      const end = Math.min(timeline.total, from + (x + 1) * perPixel);
      const begun = step;
      while (step < n - 1 && timeline.start[step + 1] <= end) step++;
      timeline.phasesTo(step, end, b);
      first[x] = begun;
      last[x] = step > begun && timeline.start[step] >= end ? step - 1 : step;
      let sum = 0;
      for (let i = 0; i < a.length; i++) sum += b[i] - a[i];
      // From the bottom up: what tiles wait for comes first.
      let below = 0;
      for (let i = 0, y = height - 1; i < a.length; i++) {
        below += b[i] - a[i];
        const top = i === a.length - 1 ? -1 : height - 1 - Math.round((below / (sum || 1)) * height);
        for (const shade = fade[phases[i][0]]; y > top; y--) pixels[y * width + x] = shade;
      }
      a.set(b);
    }
  }

  /** Which tiles are busy when, in [upper, lower), where a step is wide enough to see its phases. */
  tilesInSteps(pixels: Uint32Array, { width, from, perPixel, x0, x1, first, last }: Columns, upper: number, lower: number): void {
    const { program, timeline, fade, palette } = this;
    const matrix = program.tileCompute();
    if (!matrix) return;
    const height = pixels.length / width;
    const { steps } = program;
    for (let x = x0; x < x1; ) {
      const step = first[x];
      let end = x + 1;
      while (end < x1 && first[end] === step && last[end] === step) end++;
      if (last[x] !== step || timeline.start[step + 1] - timeline.start[step] < 4 * perPixel) {
        x = end;
        continue;
      }
      const times = timeline.times(step);
      const exchange = steps.exchange[step] * times;
      const moving = steps.links[step] > 0 ? fade.links : fade.exchange;
      const compute = steps.compute[step] * times;
      const row = matrix.row(step);
      const busy = new Float64Array(height);
      for (let y = 0; y < height; y++) {
        const low = Math.floor(upper + (y / height) * (lower - upper));
        const high = Math.max(low + 1, Math.ceil(upper + ((y + 1) / height) * (lower - upper)));
        for (let tile = low; tile < high && tile < row.length; tile++) if (row[tile] > busy[y]) busy[y] = row[tile];
      }
      for (; x < end; x++) {
        const into = from + (x + 0.5) * perPixel - timeline.start[step];
        const computing = into - exchange;
        for (let y = 0, at = x; y < height; y++, at += width) {
          pixels[at] = into < exchange ? moving : computing >= compute ? fade.sync : computing < busy[y] * times ? palette[Math.max(1, Math.round((255 * busy[y] * times) / (compute || 1)))] : fade.idle;
        }
      }
    }
  }

  /** Tile balance: mean over the busiest tile, of the compute in each pixel column. */
  balance(pixels: Uint32Array, { width, x0, x1, first, last }: Columns): void {
    const { program, fade } = this;
    const height = pixels.length / width;
    for (let x = x0; x < x1; x++) {
      let mean = 0;
      let most = 0;
      for (let step = first[x]; step <= last[x]; step++) {
        mean += program.steps.mean_compute[step];
        most += program.steps.compute[step];
      }
      const idle = height - Math.round((height * mean) / (most || 1));
      for (let y = 0, at = x; y < height; y++, at += width) pixels[at] = y < idle ? fade.idle : fade.compute;
    }
  }
}
