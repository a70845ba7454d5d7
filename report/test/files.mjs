// What leaves and enters the page as files, by what a reader does: rows saved as CSV, reports dropped onto the page.
import assert from "node:assert/strict";
import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { page } from "./page.mjs";

/** The cells of a CSV file (RFC 4180), a list for each row. */
function cellsOf(text) {
  const rows = [[]];
  for (const [, quoted, plain, end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^,"\r\n]*))(,|\r\n)/g)) {
    rows.at(-1).push(quoted?.replaceAll('""', '"') ?? plain);
    if (end === "\r\n") rows.push([]);
  }
  assert.deepEqual(rows.pop(), [], "the last row ends, too");
  return rows;
}

/** A place in the middle of an element, or where it is given as shares of it. */
async function placeOf(element, [right, down] = [0.5, 0.5]) {
  const { x, y, width, height } = await element.boundingBox();
  return [x + width * right, y + height * down];
}

/** Clicks at the button of a table that saves its rows; returns the name of the file and its cells. */
async function save(tab, session, folder, button) {
  const done = new Promise((resolve) => session.on("Browser.downloadProgress", ({ state }) => state === "completed" && resolve()));
  const begun = new Promise((resolve) => session.once("Browser.downloadWillBegin", ({ suggestedFilename }) => resolve(suggestedFilename)));
  await button.scrollIntoView();
  await tab.tab.mouse.click(...(await placeOf(button)));
  const name = await begun;
  await done;
  const path = join(folder, name);
  const rows = cellsOf(await readFile(path, "utf8"));
  await rm(path);
  return [name, rows];
}

/** What a table shows, scrolled from its top to its end: its heads, and the cells of each row as exact values or texts. */
async function shown(tab, id) {
  const selector = `#table-${id}`;
  await tab.tab.$eval(selector, (scroller) => (scroller.scrollTop = 0));
  const rows = new Map();
  let heads = [];
  for (;;) {
    await tab.settle();
    const [titles, part, atEnd] = await tab.tab.$eval(selector, (scroller) => {
      // Without flags such as "late", which another column has as a number.
      const text = (cell) => [...cell.lastElementChild.childNodes].filter((one) => !one.classList?.contains("flag")).map((one) => one.textContent).join("");
      const value = (cell) => (cell.querySelector("data") ? cell.querySelector("data").value : text(cell).replace(/^–$/, ""));
      const found = [...scroller.querySelectorAll("tbody tr[data-key]")].map((row) => [row.getAttribute("aria-rowindex"), [...row.cells].map(value)]);
      const top = scroller.scrollTop;
      scroller.scrollTop += scroller.clientHeight / 2;
      return [[...scroller.querySelectorAll("thead button")].map((head) => head.textContent.replace(/ [↑↓]$/, "")), found, scroller.scrollTop === top];
    });
    heads = titles;
    for (const [at, cells] of part) rows.set(Number(at), cells);
    if (atEnd) break;
  }
  return [heads, [...rows].sort(([a], [b]) => a - b).map(([, cells]) => cells)];
}

/** Saves the rows of a table, and compares every cell with what the page shows. Returns the number of rows. */
async function compareTable(tab, session, folder, id, program) {
  const button = await tab.tab.evaluateHandle((id) => [...document.querySelector(`#table-${id}`).closest(".table:has(button.quiet)").querySelectorAll("button.quiet")].find((one) => one.textContent === "CSV"), id);
  const [name, [heads, ...saved]] = await save(tab, session, folder, button);
  assert.equal(name, `${program} ${id}.csv`);
  const [titles, rows] = await shown(tab, id);
  assert.ok(saved.every((row) => row.length === heads.length), `${id}: each row has a cell for each head`);
  assert.deepEqual(saved.map((row) => titles.map((title) => row[heads.indexOf(title)])), rows, `${id}: the file has what the page shows`);
  return saved.length;
}

/** The tables of the shown view whose rows can be saved. */
const tables = (tab) => tab.tab.$$eval("#panel .table", (found) => found.filter((one) => [...one.querySelectorAll("button.quiet")].some((button) => button.textContent === "CSV")).map((one) => one.querySelector(".table-scroller").id.replace("table-", "")));

/** Lets the browser save what the page offers in a folder. */
export async function savingInto(tab, folder) {
  const session = await tab.tab.createCDPSession();
  await session.send("Browser.setDownloadBehavior", { behavior: "allow", downloadPath: folder, eventsEnabled: true });
  return session;
}

/** Compares all tables of these views; returns their ids. */
export async function allRowsAsFiles(tab, session, folder, views, report) {
  const found = [];
  for (const view of views) {
    await tab.show(view);
    for (const id of await tables(tab)) {
      await compareTable(tab, session, folder, id, report.program.name);
      found.push(id);
    }
  }
  return found.sort();
}

/** Sorted by another column, and filtered. */
export async function chosenRowsAsFiles(tab, session, folder, report) {
  await tab.show("operations");
  const all = await compareTable(tab, session, folder, "operations", report.program.name);
  assert.equal(all, report.operations.length);
  await tab.tab.mouse.click(...(await placeOf(await tab.tab.$('#table-operations [data-sort="compute_cycles"]'))));
  await compareTable(tab, session, folder, "operations", report.program.name);
  await tab.tab.type("#panel .filter", report.operations[0].kind);
  await tab.settle();
  const left = await compareTable(tab, session, folder, "operations", report.program.name);
  assert.ok(left > 0 && left < all, "only what is shown");
  await tab.click('#panel [aria-label="Rows"] [data-value="layer"]');
  await compareTable(tab, session, folder, "operations-layer", report.program.name);
}

/** Moves a file over a place and lets it fall. */
async function drop(tab, session, path, [x, y]) {
  const data = { items: [], files: [path], dragOperationsMask: 1 };
  for (const type of ["dragEnter", "dragOver", "drop"]) {
    await session.send("Input.dispatchDragEvent", { type, x, y, data });
    await new Promise((resolve) => setTimeout(resolve, 20)); // no frame is drawn for the page while something is dragged
  }
}

export async function droppedReports(tab, folder, first, older, tight, near) {
  const session = await tab.tab.createCDPSession();
  const address = tab.tab.url().split("#")[0];
  const write = async (name, text) => {
    await writeFile(join(folder, name), text);
    return join(folder, name);
  };
  const notes = await write("notes.json", "[1, 2]");
  const asPage = await write("older.html", await page(older));
  const asData = await write("tight.json", JSON.stringify(tight));
  const panel = await tab.tab.$("#panel");

  await tab.show("memory");
  await drop(tab, session, notes, await placeOf(panel));
  await tab.tab.waitForFunction(() => document.querySelector(".dropping").textContent.includes("notes.json cannot be compared"));
  assert.equal(await tab.count("#panel .verdict"), 0, "what is no report changes nothing");

  await drop(tab, session, asPage, await placeOf(panel));
  await tab.tab.waitForSelector("#panel .verdict");
  near(await tab.figure("a_cycles"), first.estimate.cycles, "A's cycles");
  near(await tab.figure("b_cycles"), older.estimate.cycles, "B's cycles");
  near(await tab.figure("d_cycles"), older.estimate.cycles - first.estimate.cycles, "the difference");

  // Anywhere: on the heading, in the last corner of the window, on the notice that appears below the file.
  const { width, height } = tab.tab.viewport();
  for (const [at, place] of [[await placeOf(await tab.tab.$(".top")), "the heading"], [[width - 20, height - 2], "the corner"], [[width / 2, height - 40], "the notice"]]) {
    await drop(tab, session, asPage, at);
    await tab.tab.waitForFunction((cycles) => document.querySelector('#panel [data-figure="b_cycles"]')?.value === cycles, {}, String(older.estimate.cycles));
    await drop(tab, session, asData, at);
    await tab.tab.waitForSelector("#panel .verdict.bad", { timeout: 5000 }).catch(() => assert.fail(`a file that falls on ${place} is not opened`));
    near(await tab.figure("b_total_bytes"), tight.estimate.total_bytes, "the last one takes the place of B");
    assert.equal(tab.tab.url().split("#")[0], address, "the page stays");
    assert.equal(await tab.tab.$eval(".dropping", (element) => element.hidden), true);
  }
}
