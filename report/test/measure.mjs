// Prints what a frame costs while a report of 1,472 tiles and 10,000 steps is moved and zoomed, and fails where the page's
// own work in 95 of 100 frames of a view is not below 16 ms. Not part of `npm test`: it depends on the machine.
//
// The page's work is all that its main thread does for one frame (input, script, style, layout, paint), as processor time: it
// leaves out waiting for a display and for other programs, which the wall-clock time of the same tasks and the interval between
// frames include.
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "./chromium.mjs";
import { page } from "./page.mjs";
import { synthetic } from "./synthetic.mjs";

const limit = 16;
const categories = ["devtools.timeline", "disabled-by-default-devtools.timeline", "__metadata"];

/** The frames of a trace: processor and wall-clock time of all tasks of the main thread since the frame before. */
function framesOf(events) {
  const drawn = events.filter((event) => event.name === "FireAnimationFrame" && event.ph === "X");
  if (!drawn.length) return [];
  const ours = (event) => event.pid === drawn[0].pid && event.tid === drawn[0].tid;
  const tasks = events.filter((event) => event.name === "RunTask" && event.ph === "X" && ours(event)).sort((a, b) => a.ts - b.ts);
  const begins = drawn.map((event) => event.ts).sort((a, b) => a - b);
  const frames = [];
  let open = { own: 0, wall: 0 };
  let next = 0;
  for (const task of tasks) {
    open.own += (task.tdur ?? 0) / 1000;
    open.wall += task.dur / 1000;
    const end = task.ts + task.dur;
    if (next >= begins.length || begins[next] >= end) continue;
    // Several callbacks of one frame run in one task.
    const begin = begins[next];
    while (next < begins.length && begins[next] < end) next++;
    frames.push({ ...open, interval: frames.length ? (begin - frames[frames.length - 1].begin) / 1000 : 0, begin });
    open = { own: 0, wall: 0 };
  }
  return frames;
}

function quantiles(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (part) => sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))];
  return { median: at(0.5), p95: at(0.95), max: at(1) };
}

const text = ({ median, p95, max }) => [median, p95, max].map((value) => value.toFixed(1).padStart(6)).join("");

const folder = await mkdtemp(join(tmpdir(), "report-"));
const trace = join(folder, "trace.json");
const browser = await chromium();
try {
  const html = await page(synthetic({ name: "large", tiles: 1472, steps: 10_000 }));
  const path = join(folder, "large.html");
  await writeFile(path, html);
  const tab = await browser.newPage();
  await tab.setViewport({ width: 1280, height: 900 });
  await tab.evaluateOnNewDocument(() => {
    window.longFrames_ = [];
    new PerformanceObserver((list) => window.longFrames_.push(...list.getEntries().map((entry) => entry.duration))).observe({ type: "long-animation-frame" });
  });
  let opened = Date.now();
  await tab.goto(`${pathToFileURL(path)}#view=execution`);
  await tab.waitForSelector(".timeline canvas");
  await tab.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  console.log(`page of ${(html.length / 1e6).toFixed(1)} MB, its first frame after ${Date.now() - opened} ms`);
  console.log(`${"".padEnd(34)}frames | processor time of the page | wall clock of its tasks | interval of frames | frames above 50 ms`);
  console.log(`${"median, 95 %, longest; ms".padEnd(34)}`);
  /** Runs `act` and prints its frames; with `must`, slow ones are an error. */
  const take = async (name, act, must = true) => {
    await tab.evaluate(() => (window.longFrames_.length = 0));
    await tab.tracing.start({ path: trace, categories });
    await act();
    await tab.tracing.stop();
    const long = await tab.evaluate(() => new Promise((done) => setTimeout(() => done(window.longFrames_.length), 50)));
    const frames = framesOf(JSON.parse(await readFile(trace)).traceEvents);
    if (frames.length < 10) throw new Error(`${name}: ${frames.length} frames: nothing has moved`);
    const own = quantiles(frames.map((frame) => frame.own));
    const slow = must && own.p95 >= limit;
    if (slow) process.exitCode = 1;
    console.log(`${name.padEnd(34)}${String(frames.length).padStart(6)} |${text(own).padEnd(27)} |${text(quantiles(frames.map((frame) => frame.wall))).padEnd(24)} |${text(quantiles(frames.slice(1).map((frame) => frame.interval))).padEnd(19)} | ${long}${slow ? `  SLOW: 95 % are not below ${limit} ms` : ""}`);
  };
  /** Drags from one place to another, one move at a time, and back once more. */
  const drag = async (box, x, y, dx, dy, moves = 120) => {
    await tab.mouse.move(box.x + x, box.y + y);
    await tab.mouse.down();
    for (let i = 1; i <= moves; i++) await tab.mouse.move(box.x + x + dx * Math.min(i, moves * 1.5 - i), box.y + y + dy * Math.min(i, moves * 1.5 - i));
    await tab.mouse.up();
  };
  const boxOf = async (selector) => {
    const element = await tab.waitForSelector(selector);
    await element.evaluate((it) => it.scrollIntoView({ block: "center" }));
    return element.boundingBox();
  };

  const canvas = ".timeline canvas:nth-of-type(2)";
  const box = await boxOf(canvas);
  const zoom = async (times, key = "+") => {
    for (let i = 0; i < times; i++) await tab.keyboard.press(key);
  };
  const wheel = async (at, x, y, key, times, deltaY) => {
    await tab.mouse.move(at.x + x, at.y + y);
    await tab.keyboard.down(key);
    for (let i = 0; i < times; i++) await tab.mouse.wheel({ deltaY });
    await tab.keyboard.up(key);
  };
  await tab.focus(canvas);
  let shown = 1;
  for (const more of [1, 3, 4, 5]) {
    await zoom(more);
    shown *= 2 ** more;
    await take(`timeline, 1/${shown} in sight`, () => drag(box, 900, 200, -5, 0));
  }
  await take("timeline, zoom out and in", async () => {
    await zoom(13, "-");
    await zoom(13);
  }, false);
  await zoom(9, "-");
  await wheel(box, 600, 400, "Shift", 3, -200);
  await take("timeline, tiles up and down", () => drag(box, 600, 400, 0, -2));
  await take("timeline, tiles and time", () => drag(box, 600, 400, -4, -2));

  /** The chart in a panel is zoomed by the wheel, and moved. */
  const moveChart = async (view, panel) => {
    opened = Date.now();
    await tab.click(`#tab-${view}`);
    const plot = await boxOf(`section[aria-label="${panel}"] .u-over`);
    await wheel(plot, plot.width / 2, 60, "Control", 2, -200);
    for (const part of [1, 2]) {
      if (part === 2) await wheel(plot, plot.width / 2, 60, "Control", 4, -200);
      await tab.keyboard.down("Shift");
      await take(`${view}, ${part === 1 ? "half" : "some"} in sight`, () => drag(plot, plot.width / 2, 60, -4, 0));
      await tab.keyboard.up("Shift");
    }
  };
  await moveChart("memory", "Memory of each tile");
  await moveChart("exchange", "Exchange by step");
  await moveChart("liveness", "Liveness");
} finally {
  await browser.close();
  await rm(folder, { recursive: true });
}
