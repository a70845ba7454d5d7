// Figures with their expected errors.
import { bar, empty, h, key, type Child } from "./dom";
import type { Program } from "./model";
import { cycles, known, percent, type Maybe } from "./numbers";

/** A number with its exact value in the element, so that it can be read by programs and seen as a tooltip. */
export const figure = (value: Maybe, format: (value: Maybe) => string, id?: string): HTMLElement =>
  h("data", { value: known(value) ? value : "", title: known(value) ? String(value) : "not known", "data-figure": id }, format(value));

export const plusMinus = (error: Maybe): string => (known(error) ? `± ${(error * 100).toFixed(0)} %` : "unknown");

/** The expected error of a program's cycles as text, and why. */
export function cyclesError(program: Program): { text: string; why: string } {
  const { share, error } = program.cyclesError();
  if (error === null) return { text: "unknown", why: "Nothing published was found to compare these kinds of operations with." };
  const why = `Expected error ${plusMinus(error)} for the kinds of operations that make ${percent(share)} of the cycles; unknown for the rest.`;
  return { text: share > 0.995 ? plusMinus(error) : `${plusMinus(error)} for ${percent(share)} of it`, why };
}

export function memoryError(program: Program): { text: string; why: string } {
  const error = program.memoryError();
  return error === null
    ? { text: "unknown", why: "The model's memory has not been compared with a compiled program." }
    : { text: plusMinus(error), why: program.accuracyOf("memory")?.basis ?? "" };
}

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

/** Cycles by phase as a bar; null if there are none. */
export function phaseBar(compute: number, exchange: number, sync: number): HTMLElement | null {
  const whole = compute + exchange + sync;
  if (!(whole > 0)) return null;
  const parts: [string, string, number][] = [["Compute", "compute", compute], ["Exchange", "exchange", exchange], ["Sync", "sync", sync]];
  const shown = parts.filter(([, , amount]) => amount > 0);
  return h("div.stack", null,
    h("div.stack-bar", { role: "img", "aria-label": `Cycles by phase: ${shown.map(([title, , amount]) => `${title} ${cycles(amount)}`).join(", ")}` },
      shown.map(([title, colour, amount]) =>
        h("span", { style: `width:${(100 * amount) / whole}%;background:var(--${colour})`, title: `${title}: ${cycles(amount)}` }),
      ),
    ),
    h("ul.legend", null,
      shown.map(([title, colour, amount]) =>
        h("li", null, key(colour), `${title} `, h("b", null, cycles(amount)), ` ${percent(amount / whole)}`),
      ),
    ),
  );
}

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
            h("button.row", { type: "button", onclick: row.go }, h("span.row-name", null, row.name, " ", h("small", null, row.note)), h("span", null, row.value), h("span.row-bar", null, row.parts.map(([share, name]) => bar(share, name)))),
          ),
        ),
      )
    : empty(none);
