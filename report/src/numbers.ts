// Numbers as people read them. A missing number is an en dash.

export const missing = "–";
const grouped = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });

export type Maybe = number | null | undefined;

export const known = (value: Maybe): value is number => typeof value === "number" && Number.isFinite(value);

/** Three significant digits, without an exponent. */
function short(value: number): string {
  const size = Math.abs(value);
  if (size >= 100 || value === 0) return value.toFixed(0);
  return value.toFixed(size >= 10 ? 1 : 2);
}

function scaled(value: number, units: string[], base: number): string {
  let at = 0;
  while (Math.abs(value) >= base * 0.99995 && at < units.length - 1) {
    value /= base;
    at++;
  }
  return `${short(value)} ${units[at]}`.trim();
}

export const integer = (value: Maybe): string => (known(value) ? grouped.format(value) : missing);

export const count = (value: Maybe): string =>
  !known(value) ? missing : Math.abs(value) < 10_000 ? grouped.format(value) : scaled(value, ["", "k", "M", "G", "T", "P"], 1000);

export const cycles = count;

export const bytes = (value: Maybe): string =>
  !known(value)
    ? missing
    : Math.abs(value) < 1024
      ? `${grouped.format(value)} B`
      : scaled(value, ["B", "KiB", "MiB", "GiB", "TiB"], 1024);

export function seconds(value: Maybe): string {
  if (!known(value)) return missing;
  if (value === 0) return "0 s";
  if (Math.abs(value) >= 1) return `${short(value)} s`;
  return scaled(value * 1e9, ["ns", "µs", "ms"], 1000);
}

export function percent(fraction: Maybe): string {
  if (!known(fraction)) return missing;
  const value = fraction * 100;
  const size = Math.abs(value);
  if (value !== 0 && size < 0.001) return "< 0.001 %";
  return `${value.toFixed(size >= 10 || !value ? 0 : size >= 0.1 ? 1 : 3)} %`;
}

export const rate = (value: Maybe, unit: string): string =>
  known(value) ? `${scaled(value, ["", "k", "M", "G", "T", "P"], 1000)}${unit}` : missing;

/** A change with its sign. */
export function signed(value: Maybe, format: (value: Maybe) => string): string {
  if (!known(value)) return missing;
  const size = format(Math.abs(value));
  return value === 0 ? "0" : size.startsWith("<") ? "≈ 0" : `${value > 0 ? "+" : "−"}${size}`;
}


export function total<T>(values: Iterable<T>, of: (value: T, index: number) => number): number {
  let sum = 0;
  let index = 0;
  for (const value of values) sum += of(value, index++);
  return sum;
}

/** The largest of the values and `least`. */
export function largest<T>(values: Iterable<T>, of: (value: T) => number, least = 0): number {
  let most = least;
  for (const value of values) most = Math.max(most, of(value));
  return most;
}

/** The name of an operation without the function it stands in: "dot_general train.py:12 (step)" -> "dot_general train.py:12". */
export const brief = (name: string): string => name.replace(/(:\d+) \(.*\)$/, "$1");
