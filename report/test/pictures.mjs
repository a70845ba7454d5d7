// Pictures of pages: node test/pictures.mjs pictures.json
// pictures.json: a list of {page, file, hash, width, height, scheme, click, limit}; `click` is a selector that is clicked first, if it is there.
import { readFile, stat } from "node:fs/promises";
import { resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { chromium } from "./chromium.mjs";

export async function take(browser, { page, file, hash = "", width = 1280, height = 800, scheme = "light", click = null, limit = Infinity }) {
  const tab = await browser.newPage();
  await tab.setViewport({ width, height });
  await tab.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  await tab.goto(`${pathToFileURL(resolve(page))}${hash}`);
  await tab.waitForSelector("#panel .view, table");
  if (click) await tab.evaluate((selector) => document.querySelector(selector)?.click(), click);
  await tab.evaluate(() => new Promise((done) => setTimeout(done, 300)));
  await tab.screenshot({ path: file, optimizeForSpeed: false });
  await tab.close();
  const { size } = await stat(file);
  console.log(`${file}: ${Math.round(size / 1000)} KB`);
  if (size > limit) throw new Error(`${file} has ${size} bytes, more than ${limit}`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const browser = await chromium();
  try {
    for (const one of JSON.parse(await readFile(process.argv[2], "utf8"))) await take(browser, one);
  } finally {
    await browser.close();
  }
}
