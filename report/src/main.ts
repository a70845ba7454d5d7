// The page: reads the reports in it, and shows one view of one of them beside the selection.
import { embedded, fromFile } from "./decode";
import { empty, facts, h, icon, quiet, replace } from "./dom";
import { Program } from "./model";
import { bytes, cycles, integer, percent } from "./numbers";
import { nothing, Store, type Selection, type State } from "./store";
import { apply, isDark, mode } from "./theme";
import type { Built, Context, View } from "./view";
import { compare } from "./views/compare";
import { exchange } from "./views/exchange";
import { execution } from "./views/execution";
import { insights } from "./views/insights";
import { liveness } from "./views/liveness";
import { memory } from "./views/memory";
import { operations } from "./views/operations";
import { program as tree } from "./views/program";
import { run } from "./views/run";
import { schedule } from "./views/schedule";
import { source } from "./views/source";
import { summary } from "./views/summary";

const views: View[] = [summary, insights, memory, liveness, tree, operations, execution, exchange, source, compare, run, schedule];

const shortcuts: [string, string][] = [
  ["1 … 9, 0", "show a view"],
  ["↑ ↓ Page Home End", "move through the tabs or a table"],
  ["← →", "previous and next step, tile or tree level"],
  ["+ − and Ctrl + wheel", "zoom a timeline or a plot"],
  ["drag, Shift + ← →", "move a timeline; Shift + drag moves a plot"],
  ["F", "show the whole timeline"],
  ["Z", "zoom to the selected step"],
  ["Esc", "clear the selection"],
  ["?", "this list"],
];

function selectionChips(program: Program, state: State, context: Context): HTMLElement[] {
  const chips: HTMLElement[] = [];
  const add = (key: keyof Selection, view: string, kind: string, name: string, figures: string) =>
    chips.push(
      h("span.chip", { "data-chip": key },
        h("button", { type: "button", class: "chip-name", title: `${name}: show it`, onclick: () => context.show(view) }, h("small", null, kind), " ", h("b", null, name), " ", figures),
        h("button", { type: "button", class: "chip-clear", "aria-label": `Clear the selected ${kind.toLowerCase()}`, onclick: () => context.store.set({ [key]: null }) }, "×"),
      ),
    );
  const operation = state.operation === null ? undefined : program.operations[state.operation];
  if (operation) {
    const total = program.totalCycles();
    add("operation", "operations", "Operation", operation.name, operation.cycles === null ? "not planned" : `${cycles(operation.cycles)} cycles${total ? `, ${percent(operation.cycles / total)}` : ""}`);
  }
  if (state.step !== null && state.step < program.stepCount) {
    const times = program.steps.executions[state.step];
    add("step", "execution", "Step", integer(state.step), !program.planned ? "" : `${cycles(program.stepCycles(state.step))} cycles${times === 1 ? "" : ` × ${integer(times)}`}`);
  }
  if (state.tile !== null && state.tile < program.tileCount) {
    const totals = program.tileTotals();
    add("tile", "memory", "Tile", integer(state.tile), totals ? bytes(totals[state.tile]) : "");
  }
  const variable = state.variable === null ? undefined : program.variables[state.variable];
  if (variable) add("variable", "liveness", "Variable", variable.name, bytes(variable.bytes));
  return chips;
}

/** A report that is dropped anywhere on the page is opened beside the first. */
function acceptDrops(open: (file: File) => Promise<void>): void {
  const notice = h("div.dropping", { role: "alert", hidden: true });
  document.body.append(notice);
  const say = (text: string) => {
    notice.textContent = text;
    notice.hidden = !text;
  };
  const brings = (event: DragEvent) => event.dataTransfer?.types.includes("Files");
  // On the window: where nobody takes a file, the browser leaves the page and opens the file itself.
  addEventListener("dragover", (event) => {
    if (!brings(event)) return;
    event.preventDefault();
    say("Drop a report (.html or .json) to compare it with this one.");
  });
  addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) say("");
  });
  addEventListener("drop", (event) => {
    const file = event.dataTransfer?.files[0];
    if (!file) return;
    event.preventDefault();
    say("");
    open(file).catch((error: unknown) => {
      say(`${file.name} cannot be compared: ${error instanceof Error ? error.message : String(error)}.`);
      setTimeout(() => say(""), 8000);
    });
  });
}

function start(app: HTMLElement, programs: Program[]): void {
  const store = new Store("summary");
  if (!views.some((view) => view.id === store.state.view)) store.state.view = "summary";
  if (!programs[store.state.report]) store.state.report = 0;
  let current: Built | null = null;
  const shown = () => programs[store.state.report];

  const context: Context = {
    get program() {
      return shown();
    },
    programs,
    store,
    // A step belongs to an operation: the selection of the one brings the other.
    select: (selection) => {
      const program = shown();
      const change: Partial<State> = { ...selection };
      if (typeof change.step === "number" && change.operation === undefined) {
        const operation = program.steps.operation[change.step];
        change.operation = program.operations[operation] ? operation : null;
      } else if (typeof change.operation === "number" && change.step === undefined) {
        const step = store.state.step;
        const belongs = step !== null && program.steps.operation[step] === change.operation;
        change.step = belongs ? step : program.mainStep(change.operation);
      }
      store.set(change);
    },
    show: (view, selection) => {
      if (selection) context.select(selection);
      store.set({ view });
      panel.focus({ preventScroll: true });
    },
    open: async (file) => {
      programs[1] = new Program(await fromFile(file));
      drawHeader();
      if (store.state.view === "compare") rebuild();
      else store.set({ view: "compare" });
    },
  };

  const tabs = views.map((view, index) =>
    h(
      "button",
      {
        type: "button",
        role: "tab",
        id: `tab-${view.id}`,
        "aria-controls": "panel",
        title: index < 10 ? `${view.title} (${(index + 1) % 10})` : view.title,
        onclick: () => store.set({ view: view.id }),
      },
      icon(view.icon),
      h("span", null, view.title),
    ),
  );
  const nav = h("nav", { role: "tablist", "aria-label": "Views", "aria-orientation": "vertical" }, tabs);
  const panel = h("main", { id: "panel", role: "tabpanel", tabindex: -1 });
  const header = h("header.top", null);
  const selection = h("div.selection", { "aria-live": "polite", "aria-label": "Selection" });
  const help = h("dialog.help", { "aria-label": "Keyboard" },
    h("h2", null, "Keyboard"),
    facts(shortcuts),
    h("form", { method: "dialog" }, h("button", null, "Close")),
  );

  const switchTheme = () => {
    const dark = isDark();
    apply(dark ? "light" : "dark");
    drawHeader();
    rebuild();
  };

  const drawHeader = () => {
    const program = shown();
    const { fits, num_ipus, target } = program.data.program;
    document.title = program.name;
    replace(
      header,
      h("div.brand", null, h("span.mark", { "aria-hidden": "true" }), h("span", null, "IPU report")),
      h("h1", { title: program.name }, program.name),
      h("span.tag", { title: "the chip and its number of tiles" }, num_ipus > 1 ? `${num_ipus} × ${target}` : target),
      h("span", { class: `tag ${fits ? "good" : "bad"}`, "data-fits": String(fits) }, fits ? "fits" : "does not fit"),
      h("span.space", null),
      programs.length > 1
        ? h("div.choice", { role: "group", "aria-label": "Report" },
            programs.map((one, index) =>
              h(
                "button",
                { type: "button", "aria-pressed": String(index === store.state.report), title: `${one.name} on ${one.target}`, onclick: () => store.set({ report: index, ...nothing }) },
                "AB"[index],
              ),
            ),
          )
        : null,
      h("button", { type: "button", class: "quiet", "aria-label": "Keyboard shortcuts", title: "Keyboard (?)", onclick: () => help.showModal() }, "?"),
      h("button", { type: "button", class: "quiet theme", "aria-label": isDark() ? "Light colours" : "Dark colours", title: isDark() ? "Light colours" : "Dark colours", onclick: switchTheme }, isDark() ? "☀" : "☾"),
    );
  };

  const drawSelection = () => {
    const chips = selectionChips(shown(), store.state, context);
    replace(selection, chips.length ? chips : h("span.hint", null, "Nothing selected. Click an operation, step, tile or variable: every view follows."));
    if (chips.length > 1) selection.append(quiet("Clear all", () => store.set(nothing)));
  };

  const rebuild = () => {
    current?.destroy?.();
    const view = views.find((one) => one.id === store.state.view) ?? views[0];
    tabs.forEach((tab, index) => {
      const active = views[index] === view;
      tab.setAttribute("aria-selected", String(active));
      tab.tabIndex = active ? 0 : -1;
      if (active) tab.scrollIntoView({ block: "nearest", inline: "nearest" });
    });
    panel.setAttribute("aria-labelledby", `tab-${view.id}`);
    panel.dataset.view = view.id;
    replace(panel);
    try {
      current = view.build(context);
      panel.append(current.element);
    } catch (error) {
      current = null;
      panel.append(empty(`This view cannot show the report: ${error instanceof Error ? error.message : String(error)}`));
      console.error(error);
    }
  };

  store.listen((state, before) => {
    if (state.report !== before.report) drawHeader();
    drawSelection();
    if (state.view !== before.view || state.report !== before.report) {
      rebuild();
      if (state.view !== before.view) scrollTo({ top: 0 });
    } else current?.update?.(state, before);
  });

  nav.addEventListener("keydown", (event) => {
    const at = views.findIndex((view) => view.id === store.state.view);
    const to = { ArrowDown: at + 1, ArrowRight: at + 1, ArrowUp: at - 1, ArrowLeft: at - 1, Home: 0, End: views.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const index = (to + views.length) % views.length;
    store.set({ view: views[index].id });
    tabs[index].focus();
  });
  addEventListener("keydown", (event) => {
    const target = event.target as HTMLElement;
    if (event.ctrlKey || event.metaKey || event.altKey || help.open || /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName)) return;
    if (/^[0-9]$/.test(event.key)) {
      const view = views[(Number(event.key) + 9) % 10];
      if (view) store.set({ view: view.id });
    } else if (event.key === "Escape") store.set(nothing);
    else if (event.key === "?") help.showModal();
  });
  acceptDrops(context.open);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    drawHeader();
    rebuild();
  });

  // An address may name a step without its operation, or an operation without a step.
  const { operation, step } = store.state;
  if (operation === null ? step !== null : step === null) context.select(operation === null ? { step } : { operation });
  drawHeader();
  drawSelection();
  replace(
    app,
    h("a.skip", { href: "#panel", onclick: (event: Event) => (event.preventDefault(), panel.focus()) }, "Skip to the view"),
    header,
    h("div.page", null, nav, h("div.content", null, selection, panel)),
    help,
  );
  rebuild();
}

async function load(): Promise<void> {
  apply(mode());
  const app = document.getElementById("app") ?? document.body.appendChild(h("div", { id: "app" }));
  replace(app, h("p.loading", null, "Reading the report …"));
  try {
    const first = await embedded("report-data");
    if (!first) throw new Error("the page has no data in it");
    const second = await embedded("report-data-2");
    start(app, [first, second].filter((one) => one !== null).map((one) => new Program(one)));
  } catch (error) {
    replace(app, h("div.loading", null, empty(`The report cannot be shown: ${error instanceof Error ? error.message : String(error)}.`)));
    console.error(error);
  }
}

// The script stands after the data, or in a head that is read first.
if (document.readyState === "loading") addEventListener("DOMContentLoaded", () => void load());
else void load();
