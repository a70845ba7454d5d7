// Pictures of a report for the documents: node test/screenshots.mjs FOLDER report.json [second.json]
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "./chromium.mjs";
import { page } from "./page.mjs";
import { take } from "./pictures.mjs";

const [target, ...paths] = process.argv.slice(2);
if (!target || !paths.length) throw new Error("usage: node test/screenshots.mjs FOLDER report.json [second.json]");
const reports = await Promise.all(paths.map(async (path) => JSON.parse(await readFile(path, "utf8"))));
const [report] = reports;
const largest = (rows, of) => rows.reduce((most, row) => (of(row) > of(most) ? row : most), rows[0])?.id;
const operation = largest(report.operations, (one) => one.cycles);
const variable = largest(report.variables.filter((one) => !one.lasting), (one) => one.bytes);
const step = report.memory?.peak_step ?? 0;

// Name, view, colours, height, selection.
const pictures = [
  ["summary", "summary", "light", 760, ""],
  ["insights", "insights", "light", 640, ""],
  ["memory", "memory", "light", 860, "&tile=359"],
  ["liveness", "liveness", "light", 860, `&step=${step}&variable=${variable}`],
  ["program", "program", "light", 640, `&operation=${operation}`],
  ["operations", "operations", "light", 700, `&operation=${operation}`],
  ["execution", "execution", "light", 800, `&operation=${operation}&tile=359`],
  ["execution_dark", "execution", "dark", 800, `&operation=${operation}&tile=359`],
  ["exchange", "exchange", "light", 860, ""],
  ["source", "source", "light", 640, `&operation=${operation}`],
  ...(reports.length > 1 ? [["compare", "compare", "light", 860, ""]] : []),
];

const folder = await mkdtemp(join(tmpdir(), "report-"));
const browser = await chromium();
try {
  await mkdir(target, { recursive: true });
  const path = join(folder, "report.html");
  await writeFile(path, await page(...reports));
  for (const [name, view, scheme, height, selection] of pictures) {
    await take(browser, { page: path, file: join(target, `report_${name}.png`), hash: `#view=${view}${selection}`, height, scheme, limit: 200_000 });
  }
} finally {
  await browser.close();
  await rm(folder, { recursive: true });
}
