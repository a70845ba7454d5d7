// Searches the built site in Chromium as a reader does who opens it from a folder, without a server or a network.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { fileURLToPath, pathToFileURL } from "node:url";
import { chromium } from "../../report/test/chromium.mjs";

const site = fileURLToPath(new URL("../../build/docs/site", import.meta.url));
assert.ok(existsSync(`${site}/index.html`), "there is no site: run tools/build_docs");
const browser = await chromium();
try {
  for (const [page, word, found] of [["index.html", "recomputation", "will_my_model_fit"], ["reference/estimates.html", "floor plan", "report.html"]]) {
    const tab = await browser.newPage();
    const requests = [];
    tab.on("request", (request) => /^https?:/.test(request.url()) && requests.push(request.url()));
    await tab.goto(`${pathToFileURL(site)}/${page}`);
    await tab.waitForSelector("[data-md-component=search-query]");
    await tab.evaluate(() => document.querySelector("[data-md-component=search-query]").focus());
    await tab.keyboard.type(word);
    await tab.waitForFunction(() => document.querySelectorAll(".md-search-result__item a").length > 2, { timeout: 20_000 });
    const links = await tab.$$eval(".md-search-result__item a", (all) => all.map((one) => one.href));
    assert.ok(links.some((link) => link.includes(found)), `"${word}" finds ${links}`);
    for (const link of links.slice(0, 3)) assert.ok(existsSync(fileURLToPath(link.replace(/[?#].*/, ""))), `${link} is no page`);
    assert.deepEqual(requests, [], "nothing comes from the network");
    console.log(`ok ${page}: "${word}" finds ${links.length} places`);
    await tab.close();
  }
} finally {
  await browser.close();
}
