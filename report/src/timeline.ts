// Where steps are in time, and which part of it is in sight.
import { within } from "./dom";
import { phases, type Program } from "./model";

/** Round distances between the marks of an axis. */
export function marks(from: number, to: number, count: number): number[] {
  const rough = (to - from) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(Math.max(rough, 1e-9)));
  const distance = Math.max(1, [1, 2, 5, 10].map((m) => m * power).find((d) => d >= rough) ?? rough);
  const found = [];
  for (let value = Math.ceil(from / distance) * distance; value <= to; value += distance) found.push(value);
  return found;
}

export class Timeline {
  /** Cycles before each step, and the sum at the end. */
  readonly start: Float64Array;
  /** Cycles of each phase before each step, in the order of `phases`. */
  private readonly before: Float64Array[];
  readonly total: number;

  /** With `all`, a step is as wide as all its executions together. */
  constructor(
    private readonly program: Program,
    readonly all: boolean,
  ) {
    const { stepCount: n } = program;
    this.start = new Float64Array(n + 1);
    this.before = phases.map(() => new Float64Array(n + 1));
    for (let step = 0; step < n; step++) {
      const times = this.times(step);
      const parts = program.stepPhases(step);
      phases.forEach(([key], index) => (this.before[index][step + 1] = this.before[index][step] + parts[key] * times));
      this.start[step + 1] = this.start[step] + program.stepCycles(step) * times;
    }
    this.total = this.start[n];
  }

  times(step: number): number {
    return this.all ? this.program.times(step) : 1;
  }

  /** The step that runs at a time. */
  stepAt(time: number): number {
    let low = 0;
    let high = this.program.stepCount - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.start[middle] <= time) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** Cycles of each phase, in the order of `phases`, from the start to a time in `step`. */
  phasesTo(step: number, time: number, out: Float64Array): void {
    const times = this.times(step);
    const parts = this.program.stepPhases(step);
    let rest = Math.max(0, time - this.start[step]);
    phases.forEach(([key], index) => {
      const cycles = Math.min(rest, parts[key] * times);
      rest -= cycles;
      out[index] = this.before[index][step] + cycles;
    });
  }
}

/** A stretch of time that is looked at, kept within what there is. */
export class Sight {
  from = 0;
  to: number;

  constructor(
    readonly total: number,
    private readonly least: number,
  ) {
    this.to = Math.max(total, least);
  }

  get span(): number {
    return this.to - this.from;
  }

  set(from: number, to: number): void {
    const span = within(to - from, this.least, this.total);
    this.from = within(from + (to - from - span) / 2, 0, this.total - span);
    this.to = this.from + span;
  }

  move(by: number): void {
    const span = this.span;
    this.from = within(this.from + by, 0, this.total - span);
    this.to = this.from + span;
  }

  /** Zooms about a time that stays where it is. */
  zoom(factor: number, about: number): void {
    const span = within(this.span * factor, this.least, this.total);
    const part = (about - this.from) / this.span;
    this.from = within(about - part * span, 0, this.total - span);
    this.to = this.from + span;
  }
}
