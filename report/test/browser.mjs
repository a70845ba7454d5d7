// Opens reports in Chromium, clicks through every view, and compares the figures on the page with the JSON.
//   node test/browser.mjs [--only] [--match=TEXT] [name=[page.html,]report.json[,second.json]]...
// opens the named reports after the synthetic ones, or only them, or only checks whose names have TEXT in them; without a page, one is made of the committed bundle.
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "./chromium.mjs";
import { allRowsAsFiles, chosenRowsAsFiles, droppedReports, savingInto } from "./files.mjs";
import { page } from "./page.mjs";
import { layered, synthetic } from "./synthetic.mjs";
import { syntheticRun, syntheticSchedule } from "./synthetic_run.mjs";

const views = ["summary", "insights", "memory", "liveness", "program", "operations", "execution", "exchange", "source", "compare", "run", "schedule"];
const expand = (column) => (Array.isArray(column) ? column : column.rle.flatMap((value, i) => (i % 2 ? [] : new Array(column.rle[i + 1]).fill(value))));
const shortName = (one) => one.title ?? one.name.replace(/(:\d+) \(.*\)$/, "$1");
const sum = (values) => values.reduce((a, b) => a + b, 0);

const folder = await mkdtemp(join(tmpdir(), "report-"));
const browser = await chromium();
let failures = 0;

/** A page with a report in it; everything it complains of is collected. */
class Tab {
  static async open(reports, { written = null, width = 1280, height = 860, scheme = "light", hash = "" } = {}) {
    const tab = new Tab();
    tab.path = written ?? join(folder, `${Math.random()}.html`);
    if (!written) await writeFile(tab.path, await page(...reports));
    tab.tab = await browser.newPage();
    tab.complaints = [];
    tab.requests = [];
    tab.tab.on("console", (message) => {
      if (["error", "warn"].includes(message.type())) tab.complaints.push(message.text());
    });
    tab.tab.on("pageerror", (error) => tab.complaints.push(String(error)));
    tab.tab.on("request", (request) => {
      if (!request.url().startsWith("file:")) tab.requests.push(request.url());
    });
    await tab.tab.setViewport({ width, height });
    await tab.tab.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
    await tab.tab.goto(pathToFileURL(tab.path) + hash);
    await tab.tab.waitForSelector("#panel .view");
    return tab;
  }

  async close() {
    assert.deepEqual(this.complaints, []);
    assert.deepEqual(this.requests, [], "the page must not use the network");
    await this.tab.close();
  }

  /** Waits until what was asked for in this frame has been drawn. */
  settle() {
    return this.tab.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 0)))));
  }

  async show(view) {
    await this.tab.click(`#tab-${view}`);
    await this.tab.waitForSelector(`#panel[data-view="${view}"] .view`);
    await this.settle();
  }

  figure(name) {
    return this.tab.$eval(`#panel [data-figure="${name}"]`, (element) => (element.value === "" ? null : Number(element.value)));
  }

  text(selector) {
    return this.tab.$eval(selector, (element) => element.textContent);
  }

  /** Whether all of an element's text is shown. */
  isWhole(selector) {
    return this.tab.$eval(selector, (element) => element.scrollWidth <= element.clientWidth);
  }

  count(selector) {
    return this.tab.$$eval(selector, (elements) => elements.length);
  }

  async click(selector) {
    await this.tab.$eval(selector, (element) => element.click());
    await this.settle();
  }

  async chips() {
    return Object.fromEntries(await this.tab.$$eval(".chip", (chips) => chips.map((chip) => [chip.dataset.chip, chip.querySelector("b").textContent.replace(/^[\d,]+$/, (number) => number.replaceAll(",", ""))])));
  }

  /** How many different colours a canvas shows. */
  colours(selector) {
    return this.tab.$eval(selector, (canvas) => {
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      const found = new Set();
      for (let i = 0; i < data.length; i += 4) if (data[i + 3]) found.add((data[i] << 16) | (data[i + 1] << 8) | data[i + 2]);
      return found.size;
    });
  }
}

const near = (shown, expected, what) => {
  if (expected === null || expected === undefined) assert.equal(shown, null, what);
  else assert.ok(shown !== null && Math.abs(shown - expected) <= 1e-9 * Math.max(1, Math.abs(expected)), `${what}: the page shows ${shown}, the report has ${expected}`);
};

/** Shows the rows of a view's table by layer and by function, and compares the sums of each with those of `rows`. */
async function rolledUp(tab, report, id, rows, kinds = ["layer", "function"]) {
  for (const by of kinds) {
    const nodes = report[`${by}s`] ?? [];
    const button = `#panel [aria-label="Rows"] [data-value="${by}"]`;
    assert.equal(await tab.count(button), nodes.length && rows.length ? 1 : 0, `${id} by ${by}`);
    if (!nodes.length || !rows.length) continue;
    await tab.click(button);
    const expected = new Map();
    for (const row of rows) {
      const around = [];
      for (let at = row[by] ?? null; at !== null; at = nodes[at].parent) around.push(at);
      for (const group of around.length ? around : [-1]) expected.set(group, [...(expected.get(group) ?? []), row]);
    }
    const table = `#table-${id}-${by}`;
    assert.equal(Number(await tab.tab.$eval(`${table} table`, (element) => element.getAttribute("aria-rowcount"))), expected.size + 1, `${id}: every ${by}`);
    const shown = await tab.tab.$$eval(`${table} tr[data-key]`, (found) => found.map((row) => [Number(row.dataset.key), Object.fromEntries([...row.querySelectorAll("td:has(data)")].map((cell) => [cell.dataset.column, cell.querySelector("data").value]))]));
    assert.ok(shown.length > 0, `${id}: rows by ${by}`);
    for (const [group, values] of shown) {
      for (const column of Object.keys(rows[0]).filter((one) => one !== "layer" && one !== "function")) {
        const known = expected.get(group).map((row) => row[column]).filter((value) => value !== null);
        near(values[column] === "" ? null : Number(values[column]), known.length ? sum(known) : null, `${id}: ${column} of ${nodes[group]?.name ?? "no"} ${by}`);
      }
    }
    await tab.click('#panel [aria-label="Rows"] [data-value=""]');
  }
}

/** What the steps of a report cost in all executions, with their layers and functions. */
function stepRows(report, values) {
  const { steps, operations } = report;
  const [operation, executions] = [steps.operation, steps.executions].map(expand);
  const counted = steps.counted ? expand(steps.counted) : executions.map(() => 1);
  return executions.map((times, at) => {
    const { layer = null, function: inside = null } = operations[operation[at] ?? -1] ?? {};
    return { layer, function: inside, ...Object.fromEntries(Object.entries(values).map(([key, value]) => [key, times * counted[at] * value[at]])) };
  });
}

/** What the lines of a file cost. */
const lineRows = (report, source) => [
  ...report.operations.filter((one) => one.source === source && one.line).map((one) => ({ layer: one.layer, cycles: one.cycles, exchanged: one.exchange_bytes, bytes: null })),
  ...report.variables.filter((one) => one.source === source && one.line).map((one) => ({ layer: one.layer, cycles: null, exchanged: null, bytes: one.bytes })),
];

/** The views of one report against its JSON. */
async function figures(tab, report) {
  const { estimate } = report;
  for (const key of ["cycles", "seconds", "utilisation", "fullest_tile_bytes", "total_bytes"]) near(await tab.figure(key), estimate[key], key);
  const planned = !!report.steps?.compute;
  near(await tab.figure("call_seconds"), estimate.seconds === null || estimate.host_seconds === null ? null : estimate.seconds + estimate.host_seconds - (estimate.overlapped_seconds ?? 0), "the time of a call");
  const streaming = (estimate.streaming_bytes_in ?? 0) + (estimate.streaming_bytes_out ?? 0);
  assert.equal(await tab.count('#panel [data-figure="streaming_bytes"]'), streaming > 0 ? 1 : 0, "the streaming memory has a card where it is used");
  if (streaming) {
    near(await tab.figure("streaming_bytes"), streaming, "bytes of the streaming memory");
    near(await tab.figure("host_bytes"), estimate.host_bytes_in + estimate.host_bytes_out - streaming, "bytes of the host link");
  }
  const unfit = report.insights.find((one) => one.helps);
  for (const list of ["helps", "untried"]) {
    const items = await tab.tab.$$eval(`.verdict [data-list="${list}"] li`, (found) => found.map((item) => item.textContent));
    assert.deepEqual(items, unfit?.[list] ?? [], `${list} is a list of its own`);
  }
  const links = report.steps?.links ? sum(expand(report.steps.links).map((cycles, at) => cycles * expand(report.steps.executions)[at] * expand(report.steps.counted)[at])) : 0;
  assert.equal((await tab.text("#panel .legend, #panel .empty")).includes("IPU-Links"), links > 0, "links are a phase");
  if (!report.host?.streams) assert.ok(!(await tab.text("#panel")).includes("moves nothing"), "what moves is not known");
  assert.equal(/Supersteps–/.test(await tab.text("#panel")), !planned, "the number of supersteps is that of planned operations");
  assert.equal(await tab.tab.$eval("[data-fits]", (element) => element.dataset.fits), String(report.program.fits));
  if (report.program.reason) assert.ok((await tab.text(".verdict")).includes(report.program.reason));

  await tab.show("insights");
  assert.equal(await tab.count(".insight"), report.insights.length);
  for (const one of report.insights) assert.ok((await tab.text(`[data-insight="${one.id}"]`)).includes(one.title));

  if (!planned) assert.doesNotMatch(await tab.text("#panel"), /error of unknown|No exchange buffer/, "nothing is said of what was not planned");
  await tab.show("memory");
  assert.doesNotMatch(await tab.text("#panel"), /Expected error: variables/);
  if (report.memory?.total) {
    const totals = expand(report.memory.total);
    near(await tab.figure("fullest"), Math.max(...totals), "the fullest tile");
    await tab.click(".note .link");
    const tile = totals.indexOf(Math.max(...totals));
    assert.equal((await tab.chips()).tile, String(tile));
    near(await tab.figure("tile_bytes"), totals[tile], "bytes of the tile");
    if (report.memory.gaps) near(await tab.figure("tile_gaps"), expand(report.memory.gaps)[tile], `gaps of tile ${tile}`);
    const list = report.memory.addresses?.lists[expand(report.memory.addresses.of_tile)[tile]];
    const shown = await tab.tab.$$eval("#table-tile-variables tr[data-key]", (rows) => rows.map((row) => [Number(row.dataset.key), row.querySelector('[data-column="address"]')?.textContent ?? null]));
    assert.ok(shown.length > 0, "variables on the tile");
    for (const [variable, address] of shown) {
      const at = list?.findIndex((value, index) => index % 2 === 0 && value === variable);
      assert.equal(address, list ? `0x${list[at + 1].toString(16)}` : null, `address of variable ${variable}`);
    }
    for (const [category, column] of Object.entries(report.memory.categories)) near(await tab.figure(`tile_${category}`), column && expand(column)[tile], `${category} of tile ${tile}`);
    assert.ok((await tab.colours(".plan canvas")) > 1, "the floor plan has colours");
    const layers = report.layers ?? [];
    if (await tab.count("#table-memory-layers")) {
      // At the fullest moment: a layer and all below it.
      const step = report.memory.peak_step;
      const ranges = (one) => one.ranges ?? [one.first_step, one.last_step];
      const live = (one) => step === null || one.lasting || ranges(one).some((from, i) => i % 2 === 0 && from <= step && step <= ranges(one)[i + 1]);
      const above = (id) => (id === null ? [] : [id, ...above(layers[id].parent)]);
      for (const [id, bytes] of await tab.tab.$$eval("#table-memory-layers tr[data-key]", (rows) => rows.map((row) => [Number(row.dataset.key), Number(row.querySelector('[data-column="live"] data').value)]))) {
        near(bytes, sum(report.variables.filter((one) => live(one) && above(one.layer).includes(id)).map((one) => one.bytes)), `live bytes of layer ${layers[id].name}`);
      }
      await tab.click('#panel .choice [data-value="layer"]');
    }
    for (const value of ["liveness", "variable", "size", "category"]) await tab.click(`#panel .choice [data-value="${value}"]`);
    for (const value of await tab.tab.$$eval("#panel .select option", (options) => options.map((option) => option.value))) {
      await tab.tab.select("#panel .select select", value);
      await tab.settle();
    }
  } else assert.ok(await tab.count("#panel .empty"));

  await tab.show("operations");
  if (report.operations.length) {
    const sorted = [...report.operations].sort((a, b) => b.cycles - a.cycles);
    assert.equal(await tab.text("#panel .table-status"), `${sorted.length} rows`);
    const cell = (column) => tab.tab.$eval(`#table-operations tbody tr[data-key] td[data-column="${column}"] data`, (element) => Number(element.value));
    if (planned) {
      near(await cell("cycles"), sorted[0].cycles, "cycles of the largest operation");
      near(await cell("exchange_bytes"), sorted[0].exchange_bytes, "bytes of the largest operation");
      await tab.click('#table-operations [data-sort="compute_cycles"]');
      near(await cell("compute_cycles"), Math.max(...sorted.map((one) => one.compute_cycles)), "sorted by compute");
    } else assert.equal(await tab.text('#table-operations tbody tr[data-key] td[data-column="cycles"]'), "–", "cycles that are not known");
    await tab.tab.type("#panel .filter", sorted[0].kind);
    await tab.settle();
    const left = report.operations.filter((one) => [one.name, one.kind, one.scope, one.codelets?.join(" ")].join(" ").toLowerCase().includes(sorted[0].kind.toLowerCase()));
    assert.ok((await tab.text("#panel .table-status")).startsWith(`${left.length} `), "filtered");
    if (left.length > 1 && planned) {
      near(await tab.figure("sum_cycles"), sum(left.map((one) => one.cycles)), "the sum of what is filtered");
      near(await tab.figure("sum_exchange_bytes"), sum(left.map((one) => one.exchange_bytes)), "the sum of their bytes");
    }
    await rolledUp(tab, report, "operations", left.map(({ layer, function: inside, cycles, exchange_bytes }) => ({ layer, function: inside, cycles, exchange_bytes })));
    await tab.click("#table-operations tbody tr[data-key]");
    const chips = await tab.chips();
    const operation = report.operations.find((one) => shortName(one) === chips.operation && one.kind === sorted[0].kind);
    assert.ok(operation, "an operation is selected");
    if (operation.stack) assert.equal(await tab.count("#panel .calls li"), operation.stack.length, "the call stack");
    const reaching = report.operations.filter((one) => one.flops > 0 && one.cycles > 0 && one.exchange_bytes > 0);
    if (reaching.length) assert.equal(Number(await tab.tab.$eval("[data-roofline]", (element) => element.dataset.roofline)), reaching.length, "operations below the roof");
  } else assert.ok(await tab.count("#panel .empty"));

  const { step } = await tab.chips();
  await tab.show("execution");
  const { steps } = report;
  const cycles = planned ? sum(["compute", "exchange", "sync"].flatMap((key) => expand(steps[key]))) : 0;
  if (cycles > 0) {
    const n = steps.name.length;
    const [compute, exchange, sync, executions] = ["compute", "exchange", "sync", "executions"].map((key) => expand(steps[key]));
    const counted = steps.counted ? expand(steps.counted) : new Array(n).fill(1);
    near(await tab.figure("steps"), n, "steps");
    const cost = (at) => compute[at] + exchange[at] + sync[at];
    const all = sum(executions.map((times, at) => times * counted[at] * cost(at)));
    near(await tab.figure("steps_cycles"), all, "cycles of all steps");
    if (n > 1) {
      near(await tab.figure("sum_compute"), sum(executions.map((times, at) => times * counted[at] * compute[at])), "compute in the unit of the cycles beside it");
      assert.equal(await tab.text("#table-steps tfoot td"), `Sum of ${n.toLocaleString("en")}`);
      assert.ok(await tab.isWhole("#table-steps tfoot td"), "the name of the sums is not cut");
    }
    if (Math.max(...executions) > 1) {
      await tab.click('#panel .choice [data-value="one"]');
      near(await tab.figure("steps_cycles"), cycles, "cycles of one pass, in the unit of the bars");
      await tab.click('#panel .choice [data-value="all"]');
    }
    if (report.layers?.length || report.functions?.length) for (const value of ["layers", "functions", "program"]) await tab.click(`#panel .choice [data-value="${value}"]`);
    near(all, estimate.cycles, "the steps of the report make its cycles");
    await rolledUp(tab, report, "steps", stepRows(report, { total: compute.map((_, at) => cost(at)), compute, sync }));
    if (step !== undefined) near(await tab.figure("step_cycles"), cost(Number(step)), "cycles of the selected step");
    assert.ok((await tab.colours(".timeline canvas:nth-of-type(2)")) > 4, "the timeline is drawn");
    await tab.tab.focus(".timeline canvas:nth-of-type(2)");
    await tab.tab.keyboard.press("Home");
    await tab.settle();
    assert.equal((await tab.chips()).step, "0");
    if (n > 1) {
      await tab.tab.keyboard.press("ArrowRight");
      await tab.settle();
      assert.equal((await tab.chips()).step, "1");
      near(await tab.figure("step_cycles"), cost(1), "cycles of step 1");
    }
    for (const key of ["z", "+", "ArrowUp", "-", "f"]) await tab.tab.keyboard.press(key);
    await tab.click('#panel .choice [data-value="all"], #panel [aria-label="Show all (F)"]');
    const box = await (await tab.tab.$(".timeline canvas:nth-of-type(2)")).boundingBox();
    await tab.tab.mouse.click(box.x + box.width * 0.6, box.y + 60);
    await tab.settle();
    assert.ok((await tab.chips()).step !== undefined, "a click selects a step");
  } else assert.ok(await tab.count("#panel .empty"));

  await tab.show("liveness");
  if (report.liveness?.steps) {
    near(await tab.figure("always_live"), report.liveness.always_live_bytes, "always live");
    const peak = report.memory.peak_step ?? 0;
    if (report.memory.peak_step !== null) await tab.click("#panel .note .link");
    else {
      await tab.tab.focus("#panel .chart");
      await tab.tab.keyboard.press("Home");
      await tab.settle();
    }
    near(await tab.figure(`live_${peak}`), report.liveness.always_live_bytes + expand(report.liveness.not_always_live)[peak], "live at the peak");
    await tab.click("#panel .side .quiet");
    const other = peak === 0 ? report.liveness.steps - 1 : 0;
    await tab.tab.focus("#panel .chart");
    await tab.tab.keyboard.press(peak === 0 ? "End" : "Home");
    await tab.settle();
    if (other !== peak) {
      assert.equal(await tab.count("#panel .side"), 2, "two steps side by side");
      near(await tab.figure(`live_${other}`), report.liveness.always_live_bytes + expand(report.liveness.not_always_live)[other], "live in the other step");
    }
  }
  if (report.liveness?.steps) {
    const pinned = await tab.tab.$$eval("#panel .side b", (found) => found.map((one) => Number(one.textContent.replace("Step ", ""))));
    const inStep = (one, at) => one.lasting || (one.first_step === null ? [] : one.ranges ?? [one.first_step, one.last_step]).some((from, i, all) => i % 2 === 0 && from <= at && at <= all[i + 1]);
    const live = report.variables.map((one) => ({ layer: one.layer, bytes: one.bytes, ...Object.fromEntries(pinned.map((at) => [`step-${at}`, inStep(one, at) ? one.bytes : 0])) }));
    await rolledUp(tab, report, "variables", live.filter((row) => pinned.some((at) => row[`step-${at}`] > 0)), ["layer"]);
  }
  if (report.variables.length) {
    await tab.click("#table-variables tbody tr[data-key]");
    assert.ok((await tab.chips()).variable, "a variable is selected");
  }

  await tab.show("program");
  if (report.tree.length) {
    const root = report.tree.find((node) => node.parent === null);
    near(await tab.tab.$eval(`[data-node="${root.id}"] data`, (element) => (element.value === "" ? null : Number(element.value))), root.cycles, "cycles of the root");
    const shown = await tab.tab.$$eval(".tree-row", (rows) => rows.map((row) => [Number(row.dataset.node), row.querySelector(".tree-label").textContent]));
    for (const [id, label] of shown) {
      const { operation } = report.tree.find((node) => node.id === id);
      if (operation !== null) assert.equal(label, shortName(report.operations[operation]), "the tree tells operations of a line apart");
    }
    await tab.tab.focus(".tree");
    for (const key of ["Home", "ArrowRight", "ArrowDown", "Enter", "ArrowLeft", "End"]) await tab.tab.keyboard.press(key);
    for (const by of ["layers", "functions"]) {
      if (!report[by]?.length) continue;
      await tab.click(`#panel .choice [data-value="${by}"]`);
      near(await tab.tab.$eval('[data-node="0"] data', (element) => (element.value === "" ? null : Number(element.value))), report[by][0].cycles, `cycles of the first of the ${by}`);
      const parts = await tab.tab.$$eval('[data-node="0"] .tree-bar i', (bars) => bars.map((one) => one.getBoundingClientRect()).filter((box) => box.width > 0).map(({ top, left, right }) => [top, left, right]));
      assert.ok(parts.every(([top, left], i) => top === parts[0][0] && (i === 0 || left >= parts[i - 1][2] - 1)), "the phases of a bar lie side by side");
    }
  } else assert.ok(await tab.count("#panel .empty"));

  await tab.show("exchange");
  if (report.exchange?.steps.length) {
    const moved = expand(steps.exchange_bytes);
    const executions = expand(steps.executions);
    const counted = steps.counted ? expand(steps.counted) : new Array(moved.length).fill(1);
    near(await tab.figure("exchange_bytes"), sum(report.exchange.steps.map((at) => moved[at] * executions[at] * counted[at])), "exchanged bytes");
    if (report.exchange.between_ipus && sum(expand(report.exchange.between_ipus)) > 0) {
      const between = expand(report.exchange.between_ipus);
      near(await tab.figure("between_ipus"), sum(between.map((value, at) => value * executions[at] * counted[at])), "bytes between IPUs");
    }
    const between = report.exchange.between_ipus ? expand(report.exchange.between_ipus) : [];
    const moving = new Set([...report.exchange.steps, ...between.flatMap((value, at) => (value > 0 ? [at] : []))]);
    await rolledUp(tab, report, "exchanges", stepRows(report, { all: moved }).filter((_, at) => moving.has(at)));
    await tab.click('#panel .choice [data-value="step"]');
  } else assert.ok(await tab.count("#panel .empty"));

  await tab.show("source");
  if (report.sources.length && report.operations.some((one) => one.line && one.source !== null)) {
    const costly = await tab.tab.$$eval("tr.selectable", (rows) => rows.map((row) => [Number(row.dataset.line), Number(row.querySelector(".source-cycles data")?.value ?? 0)]));
    assert.ok(costly.length > 0, "a line costs something");
    const source = await tab.tab.evaluate(() => Number(document.querySelector("#panel select")?.value ?? 0));
    for (const [line, shown] of costly) near(shown, sum(report.operations.filter((one) => one.source === source && one.line === line).map((one) => one.cycles ?? 0)), `cycles of line ${line}`);
    await rolledUp(tab, report, "lines", lineRows(report, source), report.layers?.length ? ["layer"] : []);
    await tab.click("tr.selectable");
    assert.ok((await tab.chips()).operation, "a line selects its operation");
  }
  await tab.show("schedule");
  if (report.schedule) {
    const { rows, lines, idle, duration } = report.schedule;
    near(await tab.figure("schedule_idle"), idle, "the share of bubbles");
    for (const [at, row] of rows.entries()) {
      for (const key of ["work", "links", "other", "idle"]) near(await tab.figure(`${key}_${at}`), row[key], `${key} of IPU ${row.ipu}`);
      assert.equal(row.work + row.links + row.other + row.idle, duration, "a row is all of the time");
      near(sum(lines[at].event.map((event, i) => (lines[at].kinds[event] === "idle" ? lines[at].duration[i] : 0))), row.idle, `bubbles of IPU ${row.ipu}`);
    }
    near(idle, sum(rows.map((row) => row.idle)) / (rows.length * duration), "the share is that of the rows");
    assert.ok((await tab.colours(".timeline canvas")) > 4, "the schedule is drawn");
  } else assert.equal(await tab.count("#panel .empty"), 1);
  await tab.show("compare");
}

async function comparison(tab, a, b) {
  await tab.show("compare");
  for (const key of ["cycles", "seconds", "fullest_tile_bytes", "total_bytes"]) {
    if (a.estimate[key] === null && b.estimate[key] === null) continue;
    near(await tab.figure(`a_${key}`), a.estimate[key], `A's ${key}`);
    near(await tab.figure(`b_${key}`), b.estimate[key], `B's ${key}`);
    if (a.estimate[key] !== null && b.estimate[key] !== null) near(await tab.figure(`d_${key}`), b.estimate[key] - a.estimate[key], `the difference of ${key}`);
  }
  if (a.steps?.compute) near((await tab.figure("a_tile_exchange_cycles")) + ((await tab.count('[data-figure="a_link_cycles"]')) ? await tab.figure("a_link_cycles") : 0), a.estimate.exchange_cycles, "exchange between tiles, and over links");
  assert.equal(await tab.count("#panel .verdict"), 2);
  assert.equal(await tab.count("#panel .verdict.bad"), [a, b].filter((one) => !one.program.fits).length);
  await tab.click(".top .choice button:last-child");
  await tab.show("summary");
  near(await tab.figure("cycles"), b.estimate.cycles, "the cycles of the second report");
}

const wanted = process.argv.find((one) => one.startsWith("--match="))?.slice("--match=".length);

async function check(name, body) {
  if (wanted && !name.includes(wanted)) return;
  const started = Date.now();
  try {
    await body();
    console.log(`ok ${name} (${Date.now() - started} ms)`);
  } catch (error) {
    failures++;
    console.log(`FAILED ${name}: ${error.stack}`);
  }
}

const fitting = { ...synthetic({ tiles: 64, steps: 60 }), run: syntheticRun(), schedule: syntheticSchedule() };
const tight = synthetic({ tiles: 64, steps: 20, fits: false });
const bare = synthetic({ tiles: 64, fits: false, bare: true });
const four = synthetic({ tiles: 64, steps: 20, ipus: 4 });
const older = synthetic({ tiles: 64, steps: 50, seed: 2, chip: "ipu2", scale: 1.3 });
/** A report in which everything that may be null is null. */
const nothing = {
  ...bare, sources: [], operations: [], steps: null, tile_compute: null, tree: [], variables: [], liveness: null, memory: null, tile_memory: null, exchange: null, host: null, insights: [], phases: [], accuracy: [],
  estimate: Object.fromEntries(Object.keys(bare.estimate).map((key) => [key, null])), chip: { ...bare.chip, floor_plan: null, peak_flops: null },
};
const cases = [["several IPUs", [four]], ["does not fit", [tight]], ["nothing planned", [bare]], ["nothing known", [nothing]], ["two chips", [fitting, older]], ["layers", [layered(fitting)]]];
const only = process.argv.includes("--only");
if (only) cases.length = 0;
for (const argument of process.argv.slice(2).filter((one) => one.includes("=") && !one.startsWith("--"))) {
  const [name, paths] = argument.split("=");
  const [pages, data] = [".html", ".json"].map((kind) => paths.split(",").filter((path) => path.endsWith(kind)));
  cases.push([name, await Promise.all(data.map(async (path) => JSON.parse(await readFile(path, "utf8")))), pages[0] ?? null]);
}

/** What does not depend on a report. */
async function behaviour() {
  await check("moving the timeline", async () => {
    const tab = await Tab.open([fitting], { hash: "#tile=3" });
    await tab.show("execution");
    const selector = ".timeline canvas:nth-of-type(2)";
    await tab.tab.focus(selector);
    for (let i = 0; i < 3; i++) await tab.tab.keyboard.press("+");
    await tab.settle();
    const box = await (await tab.tab.$(selector)).boundingBox();
    const stepAt = async (x) => {
      await tab.tab.mouse.move(box.x + x, box.y + 120);
      await tab.settle();
      return /step (\d+)/.exec(await tab.text(".timeline .tip small"))[1];
    };
    const pixels = () => tab.tab.$eval(selector, (canvas) => canvas.toDataURL());
    for (const by of [200, -330, 90]) {
      const from = by > 0 ? [300, 500, 700] : [700, 850, 1000];
      const before = [];
      for (const x of from) before.push(await stepAt(x));
      await tab.tab.mouse.move(box.x + from[0], box.y + 120);
      await tab.tab.mouse.down();
      for (let i = 1; i <= 10; i++) await tab.tab.mouse.move(box.x + from[0] + (by * i) / 10, box.y + 120);
      await tab.tab.mouse.up();
      await tab.settle();
      // What was under the pointer has moved with it, and nothing has become wider.
      const after = [];
      for (const x of from) after.push(await stepAt(x + by));
      assert.deepEqual(after, before, `moved by ${by} pixels`);
      // What moved looks like what is drawn anew.
      const moved = await pixels();
      for (let i = 0; i < 2; i++) await tab.click('#panel .tools .check input');
      const anew = await pixels();
      assert.ok(moved === anew, `drawn after a move by ${by} pixels`);
    }
    const wide = await pixels();
    await tab.tab.mouse.move(box.x + 600, box.y + box.height - 100);
    await tab.tab.keyboard.down("Shift");
    await tab.tab.mouse.wheel({ deltaY: -300 });
    await tab.tab.keyboard.up("Shift");
    await tab.settle();
    await tab.tab.mouse.down();
    for (let i = 1; i <= 10; i++) await tab.tab.mouse.move(box.x + 600 + 5 * i, box.y + box.height - 100 + 7 * i);
    await tab.tab.mouse.up();
    await tab.settle();
    const moved = await pixels();
    assert.notEqual(moved, wide, "the tiles are zoomed and moved");
    for (let i = 0; i < 2; i++) await tab.click('#panel .tools .check input');
    assert.ok(moved === await pixels(), "drawn after a move of time and tiles");
    await tab.close();
  });
  await check("moving a chart", async () => {
    const tab = await Tab.open([fitting]);
    await tab.show("memory");
    const box = await (await tab.tab.$("#panel .u-over")).boundingBox();
    const middle = { x: box.x + box.width / 2, y: box.y + 60 };
    const tileAt = async (x) => {
      await tab.tab.mouse.move(x, middle.y + 5);
      await tab.tab.mouse.move(x, middle.y);
      await tab.settle();
      return Number((await tab.text("#panel .u-legend .u-value")).replace(/[^\d.]/g, ""));
    };
    const wide = await tileAt(middle.x + 300) - await tileAt(middle.x);
    await tab.tab.keyboard.down("Control");
    await tab.tab.mouse.wheel({ deltaY: -300 });
    await tab.tab.keyboard.up("Control");
    const zoomed = await tileAt(middle.x + 300) - await tileAt(middle.x);
    assert.ok(zoomed > 0 && zoomed < wide / 2, `${zoomed} tiles where ${wide} were`);
    const before = await tileAt(middle.x + 100);
    await tab.tab.keyboard.down("Shift");
    await tab.tab.mouse.down();
    for (let i = 1; i <= 10; i++) await tab.tab.mouse.move(middle.x + 100 - 20 * i, middle.y);
    await tab.tab.mouse.up();
    await tab.tab.keyboard.up("Shift");
    assert.equal(await tileAt(middle.x - 100), before, "what was under the pointer has moved with it");
    // Both ends are rounded to a tile.
    assert.ok(Math.abs(await tileAt(middle.x + 200) - await tileAt(middle.x - 100) - zoomed) <= 1, "the zoom is the same");
    await tab.tab.focus("#panel .chart");
    for (let i = 0; i < 3; i++) await tab.tab.keyboard.press("-");
    assert.equal(await tileAt(middle.x + 300) - await tileAt(middle.x), wide, "all of it again");
    await tab.close();
  });
  await check("every width and colour", async () => {
    for (const [width, scheme] of [[1280, "dark"], [400, "light"], [400, "dark"]]) {
      const tab = await Tab.open([fitting, older], { width, scheme, height: 800, hash: "#step=5&tile=3&variable=2" });
      for (const view of views) {
        await tab.show(view);
        const [needed, there] = await tab.tab.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
        assert.ok(needed <= there, `${view} is ${needed} pixels wide in a window of ${there}`);
        const over = await tab.tab.$$eval(".card, .top .choice", (boxes) => boxes.filter((one) => one.scrollWidth > one.clientWidth + 2 || one.clientHeight > 300 || (one.closest(".top") && one.clientHeight > 40)).map((one) => one.textContent));
        assert.deepEqual(over, [], `${view}: more than its card or its button has room for`);
      }
      const dark = () => tab.tab.evaluate(() => getComputedStyle(document.body).backgroundColor);
      const before = await dark();
      await tab.click(".theme");
      assert.notEqual(await dark(), before, "the switch changes the colours");
      await tab.close();
    }
  });

  await check("keyboard and roles", async () => {
    const tab = await Tab.open([fitting]);
    await tab.tab.focus("#tab-summary");
    for (const view of views.slice(1)) {
      await tab.tab.keyboard.press("ArrowDown");
      await tab.settle();
      assert.equal(await tab.tab.$eval('[role="tab"][aria-selected="true"]', (element) => element.id), `tab-${view}`);
      assert.equal(await tab.tab.evaluate(() => document.activeElement.id), `tab-${view}`);
    }
    const outline = await tab.tab.$eval("#tab-schedule", (element) => getComputedStyle(element).outlineStyle);
    assert.equal(outline, "solid", "the focus is visible");
    await tab.tab.keyboard.press("6");
    await tab.settle();
    assert.equal(await tab.tab.$eval("#panel", (element) => element.dataset.view), "operations");
    await tab.tab.focus("#table-operations");
    await tab.tab.keyboard.press("ArrowDown");
    await tab.settle();
    const first = (await tab.chips()).operation;
    await tab.tab.keyboard.press("ArrowDown");
    await tab.settle();
    assert.notEqual((await tab.chips()).operation, first, "the arrow keys move the selection");
    assert.equal(await tab.count('#table-operations tr[aria-selected="true"]'), 1);
    await tab.tab.keyboard.press("Escape");
    await tab.settle();
    assert.deepEqual(await tab.chips(), {});
    await tab.tab.keyboard.press("?");
    assert.ok(await tab.tab.$eval("dialog", (element) => element.open));
    await tab.close();
  });

  await check("one selection in all views", async () => {
    const tab = await Tab.open([fitting]);
    await tab.show("operations");
    await tab.click("#table-operations tbody tr[data-key]");
    const { operation, step } = await tab.chips();
    assert.ok(operation && step !== undefined);
    await tab.show("program");
    assert.ok((await tab.text('.tree-row[aria-selected="true"]')).includes(operation));
    await tab.show("execution");
    assert.ok((await tab.text("#panel .details h2")).startsWith(`Step ${step}: ${operation}`));
    await tab.tab.reload();
    await tab.tab.waitForSelector("#panel .view");
    assert.deepEqual(await tab.chips(), { operation, step }, "the address keeps the selection");
    await tab.close();
  });

  await check("a run: the host and the chip on one axis", async () => {
    const tab = await Tab.open([fitting]);
    await tab.show("run");
    near(await tab.figure("runs"), 2, "runs");
    // Outermost events only: what a dispatch contains is part of it.
    for (const [name, time] of [["measured_dispatch", 600_000], ["measured_callback", 100_000], ["measured_model", 420_000], ["modelled_compute", 18_000], ["modelled_host_link", 8_000]]) near(await tab.figure(name), time, name);
    assert.ok((await tab.text("#panel .note")).includes("7 short events are left out"));
    const selector = ".timeline canvas";
    assert.ok((await tab.colours(selector)) > 6, "the timeline is drawn");
    const whole = await tab.tab.$eval(selector, (canvas) => canvas.toDataURL());
    await tab.click("#table-runs tbody tr[data-key]");
    const box = await (await tab.tab.$(selector)).boundingBox();
    const under = async (share, y) => {
      await tab.tab.mouse.move(box.x + 150 + share * (box.width - 150), box.y + y);
      await tab.settle();
      return tab.text(".timeline .tip");
    };
    assert.match(await under(0.5, 48), /PjitFunction\(step\) measured.*Takes300 µs/, "the host above");
    assert.match(await under(0.5, box.height - 60), /jit_step modelled.*Begins90.0 µs.*Takes20.0 µs/, "the run on the chip");
    assert.notEqual(await tab.tab.$eval(selector, (canvas) => canvas.toDataURL()), whole);
    await tab.tab.focus(selector);
    await tab.tab.keyboard.press("f");
    await tab.settle();
    await tab.tab.mouse.move(0, 0);
    assert.equal(await tab.tab.$eval(selector, (canvas) => canvas.toDataURL()), whole, "all of it again");
    await tab.close();
  });

  await check("a schedule: a row for each IPU", async () => {
    for (const width of [1280, 400]) {
      const tab = await Tab.open([fitting], { width, hash: "#view=schedule" });
      const selector = ".timeline canvas";
      const { duration } = fitting.schedule;
      const gutter = width > 640 ? 150 : 44;
      const box = await (await tab.tab.$(selector)).boundingBox();
      const under = async (time, row) => {
        await tab.tab.mouse.move(box.x + gutter + (time / duration) * (box.width - gutter), box.y + 20 + row * 25 + 8);
        await tab.settle();
        return tab.text(".timeline .tip");
      };
      assert.match(await under(150, 0), /^1 IPU 0, stage 0.*forward.*Begins110 cycles.*Takes100 cycles/, "a micro-batch");
      assert.match(await under(50, 1), /^idle IPU 1, stage 1.*Idle.*Takes100 cycles/, "a bubble");
      assert.match(await under(105, 1), /IPU-Links.*Takes10 cycles/, "a copy");
      const whole = await tab.tab.$eval(selector, (canvas) => canvas.toDataURL());
      await tab.tab.focus(selector);
      await tab.tab.keyboard.press("n");
      await tab.settle();
      await tab.tab.mouse.move(0, 0);
      const zoomed = await tab.tab.$eval(selector, (canvas) => canvas.toDataURL());
      assert.notEqual(zoomed, whole, "a micro-batch from its first stage to its last");
      await tab.tab.keyboard.press("ArrowRight");
      await tab.settle();
      assert.notEqual(await tab.tab.$eval(selector, (canvas) => canvas.toDataURL()), zoomed, "the arrow moves");
      await tab.tab.keyboard.press("f");
      await tab.settle();
      assert.equal(await tab.tab.$eval(selector, (canvas) => canvas.toDataURL()), whole, "all of it again");
      await tab.close();
    }
  });

  await check("a second report from a file", async () => {
    const tab = await Tab.open([fitting]);
    const path = join(folder, "second.json");
    await writeFile(path, JSON.stringify(older));
    await tab.show("compare");
    await (await tab.tab.$("input[type=file]")).uploadFile(path);
    await tab.tab.waitForSelector("#panel .verdict");
    near(await tab.figure("b_cycles"), older.estimate.cycles, "B's cycles");
    await tab.close();
  });

  await check("a report that is dropped onto the page", async () => {
    const tab = await Tab.open([fitting]);
    await droppedReports(tab, folder, fitting, older, tight, near);
    await tab.close();
  });

  await check("sums by layer of what the filter leaves", async () => {
    const report = layered(fitting);
    const { exchange_bytes: moved, sync } = report.steps;
    const steps = stepRows(report, { all: expand(moved), sync: expand(sync) });
    // The filter has a word of the name of one layer only.
    const [inside, word] = [1, "heads"];
    const ofLayer = (rows) => rows.filter((row) => row.layer === inside);
    const tables = [
      ["operations", "operations", report.operations.map(({ layer, function: name, cycles, flops }) => ({ layer, function: name, cycles, flops }))],
      ["execution", "steps", steps.map(({ all, ...row }) => row)],
      ["exchange", "exchanges", steps.filter((_, at) => report.exchange.steps.includes(at)).map(({ sync, ...row }) => row)],
      ["liveness", "variables", report.variables.map(({ layer, bytes }) => ({ layer, bytes })), ["layer"]],
      ["source", "lines", lineRows(report, 0), ["layer"]],
    ];
    const tab = await Tab.open([report]);
    for (const [view, id, rows, kinds] of tables) {
      await tab.show(view);
      assert.ok(ofLayer(rows).length > 1 && ofLayer(rows).length < rows.length, `${view}: the filter leaves something`);
      await tab.tab.type(`#panel .table:has([aria-label="Rows"]) .filter`, word);
      await tab.settle();
      await rolledUp(tab, report, id, ofLayer(rows), kinds);
    }
    // What is chosen stays when a step is selected.
    await tab.show("liveness");
    await tab.click('#panel [aria-label="Rows"] [data-value="layer"]');
    await tab.tab.type("#panel .filter", word);
    await tab.tab.focus("#panel .chart");
    await tab.tab.keyboard.press("Home");
    await tab.settle();
    assert.equal(await tab.count("#panel .side"), 1);
    assert.deepEqual(await tab.tab.$$eval("#table-variables-layer tr[data-key]", (rows) => rows.map((row) => Number(row.dataset.key)).sort()), [0, inside]);
    assert.equal(await tab.tab.$eval("#panel .filter", (input) => input.value), word);
    await tab.close();
  });

  await check("rows as a file for a spreadsheet", async () => {
    const [first, second] = [layered(fitting), layered(older)];
    first.operations[0].name = 'a "quoted", name';
    const tab = await Tab.open([first], { hash: "#tile=5" });
    const session = await savingInto(tab, folder);
    assert.deepEqual(await allRowsAsFiles(tab, session, folder, views, first), ["exchanges", "lines-layer", "memory-layers", "operations", "steps", "tile-variables", "variables"]);
    await chosenRowsAsFiles(tab, session, folder, first);
    await tab.close();
    const both = await Tab.open([first, second]);
    assert.deepEqual(await allRowsAsFiles(both, await savingInto(both, folder), folder, ["compare"], first), ["layers", "matched"]);
    await both.close();
  });

  await check("a narrow window", async () => {
    const long = { ...fitting, operations: fitting.operations.map((one) => ({ ...one, name: `${one.name} model.py:123 backward f32[64,1024] in block_1` })) };
    const tab = await Tab.open([long], { width: 400, height: 800 });
    await tab.show("operations");
    const places = () =>
      tab.tab.$eval("#table-operations", (scroller) => {
        const all = scroller.getBoundingClientRect();
        return Object.fromEntries([...scroller.querySelectorAll("tbody tr[data-key]:nth-of-type(2) td, tbody tr[data-key] td")].slice(0, 40).map((cell) => {
          const { left, right } = cell.getBoundingClientRect();
          return [cell.dataset.column, left >= all.left - 1 && right <= all.right + 1];
        }));
      });
    assert.deepEqual([(await places()).name, (await places()).cycles], [true, true], "name and cycles are in sight");
    const drawn = await tab.tab.$$eval("#table-operations tbody tr[data-key]", (rows) => ({
      heights: [...new Set(rows.map((row) => Math.round(row.getBoundingClientRect().height)))],
      lines: Math.max(...rows.map((row) => row.querySelector("td.stay > span").getBoundingClientRect().height)) / 18,
    }));
    assert.deepEqual(drawn, { heights: [60], lines: 3 }, "long names have three lines, and rows the height that is reckoned with");
    await tab.tab.$eval("#table-operations", (scroller) => (scroller.scrollLeft = scroller.scrollWidth));
    await tab.settle();
    const after = await places();
    assert.deepEqual([after.name, after.cycles], [true, true], "they stay when the rest is scrolled");
    assert.ok(Object.values(after).filter(Boolean).length > 2, "another column has come into sight");
    // No control lies outside the window or over another one.
    for (const view of views) {
      await tab.show(view);
      const wrong = await tab.tab.evaluate(() => {
        const boxes = [...document.querySelectorAll("#panel .tools > *, #panel .card, #panel h2, .top > *")].filter((one) => one.offsetWidth && !one.closest(".columns-list")).map((one) => [one, one.getBoundingClientRect()]);
        const cut = boxes.filter(([one, box]) => box.right > innerWidth + 1 && !one.closest("[style*=overflow], .table-scroller, .plain-scroller"));
        const over = boxes.flatMap(([a, x], i) => boxes.slice(i + 1).filter(([b, y]) => a.parentElement === b.parentElement && x.left < y.right - 1 && y.left < x.right - 1 && x.top < y.bottom - 1 && y.top < x.bottom - 1).map(([b]) => `${a.textContent.slice(0, 30)} | ${b.textContent.slice(0, 30)}`));
        return [...cut.map(([one]) => one.textContent.slice(0, 40)), ...over];
      });
      assert.deepEqual(wrong, [], `${view}: cut or one over another`);
    }
    await tab.close();
  });

  await check("data of another version", async () => {
    const path = join(folder, "other.html");
    await writeFile(path, await page({ ...fitting, version: 99 }));
    const tab = await browser.newPage();
    await tab.goto(pathToFileURL(path).href);
    await tab.waitForSelector(".empty");
    assert.match(await tab.$eval(".empty", (element) => element.textContent), /version 99/);
    await tab.close();
  });
}

try {
  for (const [name, reports, written] of cases) {
    await check(name, async () => {
      const tab = await Tab.open(reports, { written });
      if (reports.length > 1) await comparison(tab, ...reports);
      else await figures(tab, reports[0]);
      await tab.close();
    });
  }

  if (!only) await behaviour();
} finally {
  await browser.close();
  await rm(folder, { recursive: true });
}
process.exitCode = failures ? 1 : 0;
