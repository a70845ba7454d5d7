// What the page computes from reports, against what is in them: node test/model.mjs report.json...
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

globalThis.matchMedia = () => ({ addEventListener() {} });
const stdin = { contents: 'export { Matrix } from "./src/decode"; export { Program } from "./src/model";', resolveDir: join(dirname(fileURLToPath(import.meta.url)), "..") };
const { outputFiles } = await build({ stdin, bundle: true, write: false, format: "esm", logLevel: "error" });
const { Matrix, Program } = await import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`);

for (const path of process.argv.slice(2)) {
  const data = JSON.parse(await readFile(path, "utf8"));
  if (data.tile_memory) {
    // Large reports leave the matrix out: it follows from the variables.
    const memory = new Matrix(data.tile_memory);
    const program = new Program({ ...data, tile_memory: null });
    for (let step = 0; step < memory.rows; step++) assert.deepEqual(program.liveBytes(step), memory.row(step), `${path}: step ${step}`);
  }
  for (const source of [data.tile_compute, data.exchange?.sent, data.exchange?.received]) {
    if (!source) continue;
    const matrix = new Matrix(source);
    const sums = new Float64Array(matrix.columns);
    for (let row = 0; row < matrix.rows; row++) matrix.row(row).forEach((value, column) => (sums[column] += value * (row + 1)));
    assert.deepEqual(matrix.sum(Array.from({ length: matrix.rows }, (_, row) => row + 1)), sums, path);
  }
}
console.log("ok");
