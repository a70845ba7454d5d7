// Prints how long the Execution view takes for a frame of a report with 1,472 tiles and 10,000 steps, while it is moved
// and zoomed. Not a test: it depends on the machine.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "./chromium.mjs";
import { page } from "./page.mjs";
import { synthetic } from "./synthetic.mjs";

const folder = await mkdtemp(join(tmpdir(), "report-"));
const browser = await chromium();
try {
  const html = await page(synthetic({ name: "large", tiles: 1472, steps: 10_000 }));
  const path = join(folder, "large.html");
  await writeFile(path, html);
  console.log(`page: ${(html.length / 1e6).toFixed(1)} MB`);
  const tab = await browser.newPage();
  await tab.setViewport({ width: 1280, height: 900 });
  await tab.evaluateOnNewDocument(() => {
    window.frames_ = [];
    new PerformanceObserver((list) => window.frames_.push(...list.getEntries().map((entry) => entry.duration))).observe({ type: "measure" });
  });
  const opened = Date.now();
  await tab.goto(`${pathToFileURL(path)}#view=execution`);
  await tab.waitForSelector(".timeline canvas");
  await tab.waitForFunction(() => window.frames_.length > 0);
  console.log(`first frame after ${Date.now() - opened} ms, itself ${(await tab.evaluate(() => window.frames_[0])).toFixed(0)} ms`);
  const box = await (await tab.$(".timeline canvas:nth-of-type(2)")).boundingBox();
  const take = async (name, act) => {
    await tab.evaluate(() => void (window.frames_.length = 0));
    await act();
    const frames = (await tab.evaluate(() => window.frames_)).sort((a, b) => a - b);
    const at = (part) => frames[Math.min(frames.length - 1, Math.floor(part * frames.length))].toFixed(1);
    console.log(`${name}: ${frames.length} frames, shortest ${at(0)} ms, median ${at(0.5)} ms, 95 % ${at(0.95)} ms, longest ${at(1)} ms`);
  };
  const drag = async () => {
    await tab.mouse.move(box.x + 900, box.y + 200);
    await tab.mouse.down();
    for (let i = 0; i < 120; i++) await tab.mouse.move(box.x + 900 - i * 5, box.y + 200);
    await tab.mouse.up();
  };
  const zoom = async (times) => {
    for (let i = 0; i < times; i++) await tab.keyboard.press("+");
  };
  await tab.focus(".timeline canvas:nth-of-type(2)");
  await zoom(1);
  await take("pan at 1/2", drag);
  await zoom(3);
  await take("pan at 1/16", drag);
  await zoom(4);
  await take("pan at 1/256", drag);
  await zoom(5);
  await take("pan at 1/8192", drag);
  await take("zoom out and in", async () => {
    for (let i = 0; i < 13; i++) await tab.keyboard.press("-");
    for (let i = 0; i < 13; i++) await tab.keyboard.press("+");
  });
} finally {
  await browser.close();
  await rm(folder, { recursive: true });
}
