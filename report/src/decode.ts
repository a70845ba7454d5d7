// Reading the columns and matrices of format.ts, and the compressed data of the page.
import type { Column, MatrixData, ReportData } from "./format";

/** The numbers of a column, cut or filled up to `length`; null stands for `missing`. */
export function decode(column: Column | null | undefined, length: number, missing = 0): Float64Array {
  const values = new Float64Array(length).fill(missing);
  if (!column) return values;
  if (Array.isArray(column)) {
    for (let i = 0; i < Math.min(length, column.length); i++) values[i] = column[i] ?? missing;
    return values;
  }
  const runs = column.rle;
  for (let i = 0, at = 0; i + 1 < runs.length && at < length; i += 2) {
    const end = Math.min(length, at + (runs[i + 1] as number));
    values.fill(runs[i] ?? missing, at, end);
    at = end;
  }
  return values;
}

/** A matrix of which rows are decoded when they are asked for. */
export class Matrix {
  readonly rows: number;
  readonly columns: number;
  private readonly cache = new Map<number, Float64Array>();

  constructor(private readonly source: MatrixData) {
    this.rows = source.rows;
    this.columns = source.columns;
  }

  private distinct(row: number): number {
    for (;;) {
      const entry = this.source.data[row];
      if (!entry || Array.isArray(entry) || !("same" in entry)) return row;
      row = entry.same;
    }
  }

  row(index: number): Float64Array {
    const row = this.distinct(index);
    let values = this.cache.get(row);
    if (!values) {
      values = decode(this.source.data[row] as Column | undefined, this.columns);
      if (this.cache.size >= 128) this.cache.delete(this.cache.keys().next().value as number);
      this.cache.set(row, values);
    }
    return values;
  }

  /** The sum of all rows, each times its weight, by the ends of the runs: no row is decoded. */
  sum(weights: ArrayLike<number>): Float64Array {
    const change = new Float64Array(this.columns + 1);
    const plain = new Float64Array(this.columns);
    for (let row = 0; row < this.rows; row++) {
      const entry = this.source.data[this.distinct(row)] as Column | undefined;
      if (Array.isArray(entry)) {
        for (let i = 0; i < this.columns; i++) plain[i] += (entry[i] ?? 0) * weights[row];
        continue;
      }
      const runs = entry?.rle ?? [];
      for (let i = 0, at = 0; i + 1 < runs.length && at < this.columns; i += 2) {
        const amount = (runs[i] ?? 0) * weights[row];
        change[at] += amount;
        at = Math.min(this.columns, at + (runs[i + 1] ?? 0));
        change[at] -= amount;
      }
    }
    let sum = 0;
    return plain.map((value, column) => value + (sum += change[column]));
  }

  at(row: number, column: number): number {
    return this.row(row)[column];
  }

  /** All cells as bytes: value * scale(row) * 255, cut to 255; anything above zero is at least 1. */
  quantise(scale: (row: number) => number): Uint8Array {
    const bytes = new Uint8Array(this.rows * this.columns);
    for (let row = 0; row < this.rows; row++) {
      const factor = scale(row) * 255;
      const entry = this.source.data[this.distinct(row)] as Column | undefined;
      const base = row * this.columns;
      const quantised = (value: number) => (value > 0 ? Math.max(1, Math.min(255, Math.round(value * factor))) : 0);
      if (!entry) continue;
      if (Array.isArray(entry)) {
        for (let i = 0; i < entry.length; i++) bytes[base + i] = quantised(entry[i] ?? 0);
        continue;
      }
      for (let i = 0, at = 0; i + 1 < entry.rle.length; i += 2) {
        const end = Math.min(this.columns, at + (entry.rle[i + 1] ?? 0));
        const value = quantised(entry.rle[i] ?? 0);
        if (value) bytes.fill(value, base + at, base + end);
        at = end;
      }
    }
    return bytes;
  }
}

async function inflate(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Response(stream).text();
}

function checked(value: unknown): ReportData {
  const report = value as ReportData;
  if (!report || report.format !== "jax_ipu report") throw new Error("this is not the data of a jax_ipu report");
  if (report.version !== 1) {
    throw new Error(`the data has version ${report.version} of the format; this page reads version 1`);
  }
  return report;
}

/** The report in the page's element `id`, or null where the page has no such element. */
export async function embedded(id: string): Promise<ReportData | null> {
  const text = document.getElementById(id)?.textContent?.trim();
  if (!text) return null;
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return checked(JSON.parse(await inflate(bytes)));
}

/** The report in a file the user chose: the JSON, or a page that contains it. */
export async function fromFile(file: File): Promise<ReportData> {
  const text = await file.text();
  if (!text.trimStart().startsWith("<")) return checked(JSON.parse(text));
  const page = new DOMParser().parseFromString(text, "text/html");
  const data = page.getElementById("report-data")?.textContent?.trim();
  if (!data) throw new Error("the file has no report in it");
  return checked(JSON.parse(await inflate(Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0)))));
}
