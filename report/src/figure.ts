// Figures with their expected errors.
import { bar, empty, h, key, type Child } from "./dom";
import type { Insight } from "./format";
import { phases, type Phases, type Program } from "./model";
import { cycles, known, percent, type Maybe } from "./numbers";

/** A number with its exact value in the element, so that it can be read by programs and seen as a tooltip. */
export const figure = (value: Maybe, format: (value: Maybe) => string, id?: string): HTMLElement =>
  h("data", { value: known(value) ? value : "", title: known(value) ? String(value) : "not known", "data-figure": id }, format(value));

export const plusMinus = (error: Maybe): string => (!known(error) ? "unknown" : error === 0 ? "exact" : `± ${(error * 100).toFixed(0)} %`);

/** The expected error of a program's cycles as text, and why. */
export function cyclesError(program: Program): { text: string; why: string } {
  const { share, error } = program.cyclesError();
  if (error === null) return { text: "unknown", why: "Nothing published was found to compare these kinds of operations with." };
  const why = `Expected error ${plusMinus(error)} for the kinds of operations that make ${percent(share)} of the cycles; unknown for the rest.`;
  return { text: partly(error, share), why };
}

/** An expected error that is known for a share of something. */
const partly = (error: number, share: number): string => (share > 0.995 ? plusMinus(error) : `${plusMinus(error)} for ${percent(share)}, rest unknown`);

const variablesAlone = "variables alone";

/** The same of its memory: of a tile, or of all tiles. */
export function memoryError(program: Program, tile: number | null = null): { text: string; why: string } {
  const { share, error, known } = program.memoryError(tile);
  if (program.unknownCategories().length) return { text: variablesAlone, why: "exact for variables and constants; the rest was not planned, so the program needs more than this." };
  if (error === null) return { text: "unknown", why: "The model's memory has not been compared with a compiled program." };
  const why = `${known.join(" and ")}: ${plusMinus(error)}, given the tile mapping; the rest, and how Poplar places them, has not been compared with a compiled program.`;
  return { text: partly(error, share), why };
}

/** The same as a sentence. */
export const memorySentence = ({ text, why }: { text: string; why: string }): string => (text === variablesAlone ? `Of variables alone: ${why}` : `Expected error: ${text}.`);

/** The small label that says how far off a figure may be. */
export const errorLabel = ({ text, why }: { text: string; why: string }): HTMLElement =>
  h("span", { class: text === "unknown" ? "error unknown" : "error", title: `Expected error: ${why}` }, text === "unknown" ? "error unknown" : text);

export function card(title: string, value: Child, note?: Child, error?: { text: string; why: string } | null, kind = ""): HTMLElement {
  return h(
    "div",
    { class: `card ${kind}` },
    h("div.card-title", null, title),
    h("div.card-value", null, value),
    h("div.card-note", null, note),
    error ? errorLabel(error) : null,
  );
}

/** An item of advice, in which the command that tries it looks like one. */
function remedy(item: string): HTMLElement {
  const [before, command, after] = item.split(/(jax-ipu .*?)(?=, w(?:ith|here) |$)/);
  return h("li", null, before, command ? h("code", null, command) : null, after);
}

/** What helps a program that does not fit, and what was not tried, as lists under their headings. */
export function remediesOf(one: Insight | undefined): HTMLElement[] {
  const helps = one?.helps ?? [];
  const untried = one?.untried ?? [];
  return [
    ...(helps.length ? [h("b", null, "What helps"), h("ul", { "data-list": "helps" }, helps.map(remedy))] : []),
    ...(untried.length ? [h("b", null, helps.length ? "Not tried" : "What may help, but was not tried"), h("ul", { "data-list": "untried" }, untried.map(remedy))] : []),
  ];
}

/** Amounts as parts of a bar, with a legend: [title, colour, amount]; null if there is nothing. */
export function stackedBar(label: string, parts: [string, string, number][], format: (value: Maybe) => string): HTMLElement | null {
  const whole = parts.reduce((sum, [, , amount]) => sum + amount, 0);
  if (!(whole > 0)) return null;
  const shown = parts.filter(([, , amount]) => amount > 0);
  return h("div.stack", null,
    h("div.stack-bar", { role: "img", "aria-label": `${label}: ${shown.map(([title, , amount]) => `${title} ${format(amount)}`).join(", ")}` },
      shown.map(([title, colour, amount]) =>
        h("span", { style: `width:${(100 * amount) / whole}%;background:var(--${colour})`, title: `${title}: ${format(amount)}` }),
      ),
    ),
    h("ul.legend", null,
      shown.map(([title, colour, amount]) =>
        h("li", null, key(colour), `${title} `, h("b", null, format(amount)), ` ${percent(amount / whole)}`),
      ),
    ),
  );
}

/** Cycles by phase as a bar; null if there are none. */
export const phaseBar = (parts: Phases): HTMLElement | null =>
  stackedBar("Cycles by phase", phases.map(([key, title]) => [title, key, parts[key]]), cycles);

/** The phases of something as shares of `whole`, for a ranking. */
export const phaseShares = (parts: Phases, whole: number): [number, string][] => phases.map(([key]) => [parts[key] / (whole || 1), key]);

export interface Ranked {
  name: string;
  note: string;
  value: Child;
  /** Shares and colours of the bar. */
  parts: [number, string][];
  go: () => void;
}

/** The largest of something, each with a bar; a click goes there. */
export const ranking = (rows: Ranked[], none: string): HTMLElement =>
  rows.length
    ? h(
        "ol.ranking",
        null,
        rows.map((row) =>
          h(
            "li",
            null,
            h("button.row", { type: "button", onclick: row.go }, h("span.row-name", { title: row.name }, row.name, " ", h("small", null, row.note)), h("span", null, row.value), h("span.row-bar", null, row.parts.map(([share, name]) => bar(share, name)))),
          ),
        ),
      )
    : empty(none);
