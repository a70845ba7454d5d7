// Dark and light, and the colours that canvases need as numbers. style/base.css owns the colours.

export type Mode = "auto" | "light" | "dark";
const key = "jax-ipu-report-theme";

export function mode(): Mode {
  try {
    const stored = localStorage.getItem(key);
    return stored === "light" || stored === "dark" ? stored : "auto";
  } catch {
    return "auto"; // A page from a file may have no storage.
  }
}

export function apply(chosen: Mode): void {
  colours.clear();
  if (chosen === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
  try {
    if (chosen === "auto") localStorage.removeItem(key);
    else localStorage.setItem(key, chosen);
  } catch {
    // The choice holds for this visit only.
  }
}

export const isDark = (): boolean =>
  (document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";

const colours = new Map<string, string>();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => colours.clear());

/** A colour of style/base.css: colour("compute"). */
export function colour(name: string): string {
  let found = colours.get(name);
  if (found === undefined) {
    const text = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
    const pair = /^light-dark\((.*),(.*)\)$/.exec(text);
    found = (pair ? pair[isDark() ? 2 : 1].trim() : text) || "#888888";
    colours.set(name, found);
  }
  return found;
}

type Rgb = [number, number, number];

function rgb(hex: string): Rgb {
  const value = Number.parseInt(hex.slice(1, 7), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}

const pack = ([r, g, b]: Rgb): number => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;

/** A colour as a pixel of ImageData seen as Uint32Array (little endian, as all that browsers run on). */
export const pixel = (name: string): number => pack(rgb(colour(name)));

const mix = (a: Rgb, b: Rgb, t: number): Rgb => [0, 1, 2].map((i) => Math.round(a[i] + (b[i] - a[i]) * t)) as Rgb;

/** 256 pixels from the colours --heat-0 to --heat-4: nothing is the background, little is already visible. */
export function heat(): Uint32Array {
  const stops = [0, 1, 2, 3, 4].map((i) => rgb(colour(`heat-${i}`)));
  const palette = new Uint32Array(256);
  palette[0] = pixel("cell");
  for (let i = 1; i < 256; i++) {
    const at = (i / 255) * 4;
    const low = Math.min(3, Math.floor(at));
    palette[i] = pack(mix(stops[low], stops[low + 1], at - low));
  }
  return palette;
}

/** The same as text, for shapes. */
export function heatText(): string[] {
  return [...heat()].map((value) => `rgb(${value & 255},${(value >> 8) & 255},${(value >> 16) & 255})`);
}
