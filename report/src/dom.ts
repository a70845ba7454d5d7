// Elements without a framework.
import { colour } from "./theme";

export type Child = Node | string | number | null | undefined | false | Child[];
type Attribute = string | number | boolean | null | undefined | ((event: never) => void);

function fill(element: Element, children: Child[]): void {
  for (const child of children) {
    if (Array.isArray(child)) fill(element, child);
    else if (child instanceof Node) element.append(child);
    else if (child !== null && child !== undefined && child !== false) element.append(String(child));
  }
}

function assign(element: Element, attributes: Record<string, Attribute> | null): void {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value as EventListener);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, String(value));
  }
}

type Tag = keyof HTMLElementTagNameMap;

/** An element: h("a.class.other", {href: "#", onclick: go}, "text", child). */
export function h<K extends Tag>(tag: K | `${K}.${string}`, attributes?: Record<string, Attribute> | null, ...children: Child[]): HTMLElementTagNameMap[K] {
  const [name, ...classes] = tag.split(".");
  const element = document.createElement(name as K);
  if (classes.length) element.className = classes.join(" ");
  assign(element, attributes ?? null);
  fill(element, children);
  return element;
}

export function replace(element: Element, ...children: Child[]): void {
  element.replaceChildren();
  fill(element, children);
}

/** A 16-pixel icon from the data of one path. */
export function icon(path: string): SVGSVGElement {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  assign(svg, { viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true", class: "icon" });
  const shape = document.createElementNS("http://www.w3.org/2000/svg", "path");
  assign(shape, { d: path });
  svg.append(shape);
  return svg;
}

/** A sentence in the place of what there is nothing to show of. */
export const empty = (sentence: string): HTMLElement => h("p.empty", null, sentence);

/** A titled part of a view. */
export function panel(heading: string, note: Child, ...children: Child[]): HTMLElement {
  return h("section.panel", { "aria-label": heading }, h("h2", null, heading), note ? h("p.note", null, note) : null, children);
}

/** Buttons of which one is pressed. */
export function choice<T extends string>(
  label: string,
  options: readonly (readonly [T, string])[],
  chosen: T,
  onchange: (value: T) => void,
): HTMLElement {
  const buttons = options.map(([value, text]) =>
    h(
      "button",
      {
        type: "button",
        "data-value": value,
        "aria-pressed": String(value === chosen),
        onclick: () => {
          for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.value === value));
          onchange(value);
        },
      },
      text,
    ),
  );
  return h("div.choice", { role: "group", "aria-label": label }, buttons);
}

export function checkbox(label: string, checked: boolean, onchange: (checked: boolean) => void): HTMLElement {
  return h("label.check", null,
    h("input", { type: "checkbox", checked, onchange: (event: Event) => onchange((event.target as HTMLInputElement).checked) }),
    label,
  );
}

export function select<T extends string>(
  label: string,
  options: readonly (readonly [T, string])[],
  chosen: T,
  onchange: (value: T) => void,
): HTMLElement {
  return h("label.select", null,
    `${label} `,
    h(
      "select",
      { onchange: (event: Event) => onchange((event.target as HTMLSelectElement).value as T) },
      options.map(([value, text]) => h("option", { value, selected: value === chosen }, text)),
    ),
  );
}

/** Calls `action` once per frame however often it is asked for. */
export function perFrame(action: () => void): () => void {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      action();
    });
  };
}

/** Text that does something when it is clicked. */
export const link = (text: Child, onclick: () => void): HTMLElement => h("button", { type: "button", class: "link", onclick }, text);

export const quiet = (text: Child, onclick: () => void): HTMLElement => h("button", { type: "button", class: "quiet", onclick }, text);

/** Terms and their values; a value of null leaves the term out. */
export const facts = (rows: (readonly [Child, Child])[], more = ""): HTMLElement =>
  h("dl", { class: `facts ${more}` }, rows.filter(([, value]) => value !== null).map(([term, value]) => [h("dt", null, term), h("dd", null, value)]));

/** A short table without any behaviour; a head that starts with "#" is a column of numbers. */
export function plainTable(heads: string[], rows: Child[][]): HTMLElement {
  const kind = (index: number) => (heads[index].startsWith("#") ? "number" : null);
  const cells = (tag: "th" | "td", row: Child[]) => h("tr", null, row.map((cell, index) => h(tag, { class: kind(index) }, cell)));
  return h("div.plain-scroller", null,
    h("table.plain", null, h("thead", null, cells("th", heads.map((head) => head.replace("#", "")))), h("tbody", null, rows.map((row) => cells("td", row)))),
  );
}

/** A label that follows the pointer over `host`. */
export function tooltip(host: HTMLElement): { show: (content: Child, x: number, y: number) => void; hide: () => void } {
  const tip = h("div.tip", { hidden: true });
  host.append(tip);
  return {
    show: (content, x, y) => {
      replace(tip, content);
      tip.hidden = false;
      tip.style.left = `${Math.max(0, Math.min(x + 14, host.clientWidth - tip.offsetWidth))}px`;
      tip.style.top = `${y + 16}px`;
    },
    hide: () => {
      tip.hidden = true;
    },
  };
}

/** Gives a canvas a size in CSS pixels, and a pen that draws in them. */
export function sized(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D {
  const ratio = devicePixelRatio || 1;
  const wide = Math.round(width * ratio);
  const high = Math.round(height * ratio);
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const pen = canvas.getContext("2d")!;
  pen.setTransform(1, 0, 0, 1, 0, 0);
  pen.clearRect(0, 0, wide, high);
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.font = "11px system-ui, sans-serif";
  pen.textBaseline = "middle";
  return pen;
}

/** Calls `move` with -1, 1 or an infinity for the arrow, Home and End keys. */
export function arrows(element: HTMLElement, move: (by: number) => void): void {
  on(element, "keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    move(by);
  });
}

/** The small square that explains a colour. */
export const key = (name: string): HTMLElement => h("i.key", { style: `background:var(--${name})` });

/** A bar inside its element; share is 0..1. */
export const bar = (share: number, name?: string): HTMLElement => h("i", { style: `width:${(100 * share).toFixed(2)}%${name ? `;background:var(--${name})` : ""}` });

export const within = (value: number, low: number, high: number): number => Math.max(low, Math.min(high, value));

export function on<K extends keyof HTMLElementEventMap>(target: HTMLElement, type: K, action: (event: HTMLElementEventMap[K]) => void, options?: AddEventListenerOptions): void {
  target.addEventListener(type, action, options);
}

/** A filled rectangle in a colour of style/base.css. */
export function rectangle(pen: CanvasRenderingContext2D, name: string, x: number, y: number, width: number, height: number): void {
  pen.fillStyle = colour(name);
  pen.fillRect(x, y, width, height);
}
