// The user's files, with what each line costs.
import { empty, h, on, panel, replace, select } from "../dom";
import { cyclesError, figure, plusMinus } from "../figure";
import type { Operation } from "../format";
import { bytes, cycles, integer, percent, largest, total } from "../numbers";
import type { Built, Context, View } from "../view";

function build(context: Context): Built {
  const { program, store } = context;
  const files = program.data.sources ?? [];
  const whole = program.totalCycles() || 1;
  const without = total(program.operations, (one) => (files[one.source ?? -1] ? 0 : (one.cycles ?? 0)));
  if (!files.length) return { element: h("div.view", null, panel("Source", null, empty("The report knows no source lines: the program came without locations."))) };

  const costs = files.map((_, index) => total(program.operations, (one) => (one.source === index ? (one.cycles ?? 0) : 0)));
  const chosen = () => (store.state.operation === null ? undefined : program.operations[store.state.operation]);
  let file = chosen()?.source ?? costs.indexOf(Math.max(...costs));
  const host = h("div", null);
  const heldOn = new Map<string, number>();
  for (const one of program.variables) {
    if (one.source === null || one.source === undefined || !one.line) continue;
    const key = `${one.source}:${one.line}`;
    heldOn.set(key, (heldOn.get(key) ?? 0) + one.bytes);
  }
  const operationsAt = (line: number): Operation[] => program.byLine().get(`${file}:${line}`) ?? [];

  const draw = (reveal: boolean) => {
    const one = files[file];
    const most = largest(program.byLine(), ([key, list]) => (key.startsWith(`${file}:`) ? total(list, (op) => op.cycles ?? 0) : 0), 1);
    const current = chosen();
    const used = [...new Set([...program.byLine().keys(), ...heldOn.keys()].filter((key) => key.startsWith(`${file}:`)).map((key) => Number(key.split(":")[1])))].sort((a, b) => a - b);
    const lines: [number, string | null][] = one.lines ? one.lines.map((text, index) => [index + 1, text]) : used.map((line) => [line, null]);
    const row = ([line, text]: [number, string | null]) => {
      const list = operationsAt(line);
      const sum = total(list, (op) => op.cycles ?? 0);
      const moved = total(list, (op) => op.exchange_bytes ?? 0);
      const held = heldOn.get(`${file}:${line}`) ?? 0;
      const hot = current?.source === file && current.line === line;
      const errors = [...new Set(list.map((op) => plusMinus(program.accuracyOf(op.kind)?.cycles)))];
      return h(
        "tr",
        {
          "data-line": line,
          class: `${list.length ? "selectable" : ""}${hot ? " chosen" : ""}`,
          tabindex: list.length ? (hot ? 0 : -1) : null,
          "aria-selected": list.length ? String(hot) : null,
          title: list.length ? `${list.map((op) => `${op.name}: ${cycles(op.cycles)} cycles`).slice(0, 8).join("\n")}\nexpected error: ${errors.join(", ")}` : null,
          onclick: list.length
            ? () => {
                // Again on the same line: the next of its operations.
                const at = list.findIndex((op) => op.id === store.state.operation);
                const sorted = [...list].sort((a, b) => (b.cycles ?? 0) - (a.cycles ?? 0));
                context.select({ operation: at < 0 ? sorted[0].id : list[(at + 1) % list.length].id });
              }
            : null,
        },
        h("td.number.source-cycles", null, sum > 0 && h("span.bar", { style: `width:${((100 * sum) / most).toFixed(1)}%` }), h("span", null, sum ? figure(sum, cycles) : "")),
        h("td.number", null, sum ? percent(sum / whole) : ""),
        h("td.number", null, held ? figure(held, bytes) : ""),
        h("td.number", null, moved ? bytes(moved) : ""),
        h("td.number.line-number", null, line),
        h("td.code", null, text === null ? h("em", null, list.map((op) => op.name).join(", ")) : text || " "),
      );
    };
    const table = h("table.source", { role: "grid", "aria-label": one.path },
      h("thead", null, h("tr", null, h("th.number", null, "Cycles"), h("th.number", null, "Share"), h("th.number", { title: "Bytes of the variables that the line makes" }, "Variables"), h("th.number", null, "Exchanged"), h("th.number", null, "Line"), h("th", null, "Text"))),
      h("tbody", null, lines.map(row)),
    );
    const scroller = h("div.source-scroller", { tabindex: 0, role: "group", "aria-label": "Lines: use the arrow keys" }, table);
    on(scroller, "keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      const costly = used.filter((line) => operationsAt(line).length);
      if (!step || !costly.length) return;
      event.preventDefault();
      const now = chosen();
      const at = now?.source === file ? costly.indexOf(now.line as number) : -1;
      const line = costly[Math.max(0, Math.min(costly.length - 1, at < 0 ? 0 : at + step))];
      context.select({ operation: [...operationsAt(line)].sort((a, b) => (b.cycles ?? 0) - (a.cycles ?? 0))[0].id });
      host.querySelector<HTMLElement>(".source-scroller")?.focus({ preventScroll: true });
    });
    const before = host.querySelector(".source-scroller")?.scrollTop ?? 0;
    replace(host, one.lines ? null : empty("The text of this file is not in the report: only its lines that cost something are listed."), used.length || one.lines ? scroller : empty("No operation comes from this file."));
    scroller.scrollTop = before;
    const target = reveal ? (host.querySelector<HTMLElement>(".chosen") ?? host.querySelector<HTMLElement>("tr.selectable")) : null;
    if (target && (target.offsetTop < scroller.scrollTop + 30 || target.offsetTop > scroller.scrollTop + scroller.clientHeight - 30)) scroller.scrollTop = target.offsetTop - 120;
  };
  draw(false);
  requestAnimationFrame(() => draw(true));
  const names = files.map((one, index) => [String(index), `${one.path.split("/").slice(-2).join("/")} (${percent(costs[index] / whole)})`] as const);
  return {
    element: h("div.view", null,
      panel(
        "Source",
        [`Cycles and bytes of the operations that each line makes. Expected error: ${cyclesError(program).text}.`, without > 0 ? ` ${cycles(without)} cycles (${percent(without / whole)}) have no source line.` : null, ` ${integer(program.byLine().size)} lines cost something.`],
        h("div.tools", null, files.length > 1 ? select("File", names, String(file), (value) => ((file = Number(value)), draw(true))) : h("span.path", { title: files[0].path }, names[0][1])),
        host,
      ),
    ),
    update: (state, before) => {
      if (state.operation === before.operation) return;
      const source = chosen()?.source;
      if (source !== null && source !== undefined && source !== file && files[source]) {
        file = source;
        const picker = host.parentElement?.querySelector("select");
        if (picker) picker.value = String(file);
      }
      draw(true);
    },
  };
}

export const source: View = { id: "source", title: "Source", icon: "M5.5 4 1.5 8l4 4 1-1-3-3 3-3zM10.5 4l-1 1 3 3-3 3 1 1 4-4z", build };
