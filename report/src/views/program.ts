// The program as a tree of sequences, loops, branches and operations; and what layers and functions cost.
import { bar, choice, empty, h, key, on, panel, perFrame, replace } from "../dom";
import { figure, phaseShares } from "../figure";
import type { Operation, TreeNode } from "../format";
import { shade } from "../lanes";
import { phasesOf, type Phases, type Program } from "../model";
import { bytes, cycles, integer, percent, total } from "../numbers";
import type { Built, Context, View } from "../view";

const rowHeight = 26;

type By = "program" | "layers" | "functions";

/** A node of any of the trees. */
type Node = TreeNode & { phases?: Phases; bytes?: number | null };

/** A cost tree as the view shows it: its nodes, then their operations, the largest first. */
function costNodes(program: Program, by: "layers" | "functions"): Node[] {
  const found = program.data[by] ?? [];
  const none = { trips: null, first_step: null, last_step: null };
  const nodes: Node[] = found.map((one) => ({ ...none, id: one.id, parent: one.parent, kind: by === "layers" ? "layer" : "function", label: one.name, operation: null, cycles: one.cycles, phases: phasesOf(one), bytes: one.variable_bytes }));
  const leaf = (operation: Operation, parent: number | null) =>
    nodes.push({ ...none, id: nodes.length, parent, kind: operation.backward ? "backward" : "operation", label: operation.name, operation: operation.id, cycles: operation.cycles, phases: phasesOf(operation) });
  const placed = new Set<number>();
  for (const one of found) {
    for (const id of one.operations) {
      placed.add(id);
      leaf(program.operations[id], one.id);
    }
  }
  for (const operation of program.operations) if (!placed.has(operation.id)) leaf(operation, null);
  return nodes;
}

/** One of the trees, with its keys. */
function treeView(context: Context, nodes: Node[], ofSteps: boolean): Built & { all: (on: boolean) => void } {
  const { program, store } = context;
  const children = new Map<number | null, Node[]>();
  for (const node of nodes) {
    const list = children.get(node.parent);
    if (list) list.push(node);
    else children.set(node.parent, [node]);
  }
  // The program is in the order in which it runs, costs are in falling order.
  if (!ofSteps) for (const list of children.values()) list.sort((a, b) => (b.cycles ?? 0) - (a.cycles ?? 0));
  const roots = children.get(null) ?? [];
  const whole = total(roots, (node) => node.cycles ?? 0) || program.totalCycles() || 1;
  const open = new Set<number>(roots.map((node) => node.id));
  // A lone child says little: open down to the first choice.
  for (let level = roots; level.length === 1; level = children.get(level[0].id) ?? []) open.add(level[0].id);
  let rows: { node: Node; level: number }[] = [];
  let active = roots[0].id;
  const tree = h("div", { role: "tree", "aria-label": "Program", tabindex: 0, class: "tree" });
  const body = h("div.tree-body", { role: "none" });
  tree.append(body);

  const flatten = () => {
    rows = [];
    const stack = [...roots].reverse().map((node) => ({ node, level: 0 }));
    for (let row = stack.pop(); row; row = stack.pop()) {
      rows.push(row);
      const level = row.level + 1;
      if (open.has(row.node.id)) for (const child of [...(children.get(row.node.id) ?? [])].reverse()) stack.push({ node: child, level });
    }
  };
  const isSelected = (node: Node) => {
    const { step, operation } = store.state;
    if (node.operation !== null && node.operation === operation) return step === null || node.first_step === null || (step >= node.first_step && step <= (node.last_step as number)) || program.steps.operation[step] !== operation;
    return false;
  };
  const draw = perFrame(() => {
    const first = Math.max(0, Math.floor(tree.scrollTop / rowHeight) - 5);
    const last = Math.min(rows.length, first + Math.ceil((tree.clientHeight || 600) / rowHeight) + 10);
    body.style.height = `${rows.length * rowHeight}px`;
    replace(
      body,
      rows.slice(first, last).map(({ node, level }, index) => {
        const inside = children.has(node.id);
        const operation = node.operation === null ? undefined : program.operations[node.operation];
        const cost = node.cycles ?? 0;
        return h(
          "div",
          {
            role: "treeitem",
            id: `node-${node.id}`,
            "data-node": node.id,
            "aria-level": level + 1,
            "aria-expanded": inside ? String(open.has(node.id)) : null,
            "aria-selected": String(isSelected(node)),
            class: `tree-row${node.id === active ? " active" : ""}`,
            style: `top:${(first + index) * rowHeight}px;padding-left:${6 + Math.min(level, 16) * 16}px`,
            onclick: (event: MouseEvent) => activate(node, (event.target as HTMLElement).classList.contains("twist")),
          },
          h("span.twist", null, inside ? (open.has(node.id) ? "▾" : "▸") : ""),
          key(operation ? shade(operation.kind) : "group"),
          h("span.tree-kind", null, node.kind),
          h("span.tree-label", { title: program.labelOf(node) }, program.labelOf(node), node.trips !== null && node.trips !== undefined ? h("b", null, ` × ${integer(node.trips)}`) : null, node.kind === "repeat" || node.kind === "while" ? (node.trips === null ? h("b", null, " × unknown") : null) : null),
          node.bytes ? h("span.tree-kind", { title: "Bytes of the variables that are made here" }, bytes(node.bytes)) : null,
          h("span.tree-bar", null, node.phases ? phaseShares(node.phases, whole).map(([share, name]) => bar(share, name)) : bar(cost / whole)),
          h("span.tree-cycles", null, figure(node.cycles, cycles), node.cycles === null ? null : h("small", null, ` ${percent(cost / whole)}`)),
        );
      }),
    );
    tree.setAttribute("aria-activedescendant", `node-${active}`);
  });
  const toggle = (node: Node, on = !open.has(node.id)) => {
    if (on) open.add(node.id);
    else open.delete(node.id);
    flatten();
    draw();
  };
  const activate = (node: Node, twist: boolean) => {
    active = node.id;
    if (children.has(node.id) && (twist || node.operation === null)) toggle(node);
    if (!twist && node.operation !== null) context.select({ operation: node.operation, step: node.first_step });
    else if (!twist && node.first_step !== null) context.select({ step: node.first_step });
    draw();
  };
  const reveal = (id: number) => {
    for (let node: Node | undefined = nodes[id]; node && node.parent !== null; node = nodes[node.parent]) open.add(node.parent);
    flatten();
    const top = rows.findIndex((row) => row.node.id === id) * rowHeight;
    if (top < tree.scrollTop || top + rowHeight > tree.scrollTop + tree.clientHeight) tree.scrollTop = Math.max(0, top - tree.clientHeight / 2);
    draw();
  };
  const follow = () => {
    const { operation, step } = store.state;
    const own = step === null || !ofSteps ? undefined : nodes[program.steps.node[step]];
    const node = own && (operation === null || own.operation === operation) ? own : operation === null ? own : nodes.find((one) => one.operation === operation);
    if (!node) return draw();
    active = node.id;
    reveal(node.id);
  };
  on(tree, "scroll", draw, { passive: true });
  on(tree, "keydown", (event) => {
    const at = rows.findIndex((row) => row.node.id === active);
    const node = rows[at]?.node;
    if (!node) return;
    const go = (to: number) => {
      active = rows[Math.max(0, Math.min(rows.length - 1, to))].node.id;
      reveal(active);
    };
    const moves: Record<string, () => void> = {
      ArrowDown: () => go(at + 1),
      ArrowUp: () => go(at - 1),
      PageDown: () => go(at + 15),
      PageUp: () => go(at - 15),
      Home: () => go(0),
      End: () => go(rows.length - 1),
      ArrowRight: () => (children.has(node.id) ? (open.has(node.id) ? go(at + 1) : toggle(node, true)) : undefined),
      ArrowLeft: () => (open.has(node.id) && children.has(node.id) ? toggle(node, false) : node.parent !== null ? ((active = node.parent), reveal(active)) : undefined),
      Enter: () => activate(node, false),
      " ": () => activate(node, false),
    };
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    move();
  });
  flatten();
  follow();
  const observer = new ResizeObserver(draw);
  observer.observe(tree);
  const all = (on: boolean) => {
    open.clear();
    if (on) for (const node of nodes) open.add(node.id);
    else for (const node of roots) open.add(node.id);
    flatten();
    draw();
  };
  return {
    element: tree,
    all,
    update: (state, before) => (state.operation !== before.operation || state.step !== before.step ? follow() : draw()),
    destroy: () => observer.disconnect(),
  };
}

const notes: Record<By, string> = {
  program: "What the chip runs, in order; cycles are those of all executions. Loop bodies stand once.",
  layers: "Name scopes and functions under jit, with the sums of all that is in them; a gradient belongs to the layer that it is of. Bytes are those of the variables that are made there.",
  functions: "Your functions on the call stack of each operation, with the sums of all that they call.",
};

function build(context: Context): Built {
  const { program } = context;
  if (!program.tree.length) return { element: h("div.view", null, panel("Program", null, empty(program.nothing))) };
  const host = h("div", null);
  const note = h("span", null);
  let tree: ReturnType<typeof treeView>;
  const show = (by: By) => {
    tree?.destroy?.();
    tree = treeView(context, by === "program" ? program.tree : costNodes(program, by), by === "program");
    replace(note, notes[by]);
    replace(host, tree.element);
  };
  show("program");
  return {
    element: h("div.view", null,
      panel(
        "Program",
        note,
        h("div.tools", null,
          program.data.functions?.length || program.data.layers?.length ? choice<By>("Tree", [["program", "As it runs"], ["layers", "By layer"], ["functions", "By function"]], "program", show) : null,
          h("button", { type: "button", onclick: () => tree.all(true) }, "Open all"),
          h("button", { type: "button", onclick: () => tree.all(false) }, "Close all"),
        ),
        host,
      ),
    ),
    update: (state, before) => tree.update?.(state, before),
    destroy: () => tree.destroy?.(),
  };
}

export const program: View = { id: "program", title: "Program", icon: "M2 2h6v3H2zM6 7h6v3H6zM8 12h6v3H8zM3.5 5v9H8v-1H4.5V9H6V8H4.5V5z", build };
