// The chip's floor plan on a canvas: one cell for each tile.
import { h, on, perFrame, replace, tooltip, within } from "./dom";
import type { Program } from "./model";
import { largest } from "./numbers";
import { colour, heat, pixel } from "./theme";

export interface Plan {
  element: HTMLElement;
  redraw: () => void;
  destroy: () => void;
}

/** Where each tile stands; without a plan in the report, row by row. */
function places(program: Program): { columns: number; rows: number; x: (tile: number) => number; y: (tile: number) => number } {
  const plan = program.data.chip.floor_plan;
  if (plan?.tiles && plan.tiles.length >= 2 * program.tileCount) {
    return { columns: plan.columns, rows: plan.rows, x: (tile) => plan.tiles[2 * tile], y: (tile) => plan.tiles[2 * tile + 1] };
  }
  const columns = Math.ceil(Math.sqrt(program.tileCount * 1.4));
  return { columns, rows: Math.ceil(program.tileCount / columns), x: (tile) => tile % columns, y: (tile) => Math.floor(tile / columns) };
}

export function floorPlan(
  program: Program,
  options: {
    label: string;
    /** Value of each tile, and the value that has the strongest colour. */
    values: () => Float64Array;
    /** What is more than this has the colour of a problem. */
    limit: number;
    format: (value: number) => string;
    selected: () => number | null;
    onSelect: (tile: number) => void;
    describe: (tile: number) => string;
  },
): Plan {
  const place = places(program);
  const canvas = h("canvas", { tabindex: 0, role: "img", "aria-label": `${options.label}. Arrow keys move between tiles.` });
  const scale = h("div.scale");
  const element = h("div.plan", null, canvas, scale);
  const tip = tooltip(element);
  const at = new Map<number, number>();
  for (let tile = 0; tile < program.tileCount; tile++) at.set(place.y(tile) * place.columns + place.x(tile), tile);
  let hover: number | null = null;
  let cell = 8;

  const draw = perFrame(() => {
    const width = element.clientWidth;
    if (width < 20) return;
    const ratio = devicePixelRatio || 1;
    cell = within(Math.floor((width * ratio) / place.columns), 2, 24);
    canvas.width = cell * place.columns;
    canvas.height = cell * place.rows;
    canvas.style.width = `${canvas.width / ratio}px`;
    canvas.style.height = `${canvas.height / ratio}px`;
    const context = canvas.getContext("2d")!;
    const image = context.createImageData(canvas.width, canvas.height);
    const pixels = new Uint32Array(image.data.buffer);
    const values = options.values();
    const highest = largest(values, Number);
    // Almost equal tiles are drawn as equal.
    const least = -largest(values, (value) => -value, -highest);
    const lowest = least > 0.98 * highest ? 0 : least;
    replace(scale, h("span", null, options.format(lowest)), h("i"), h("span", null, options.format(highest)));
    const palette = heat();
    const over = pixel("problem");
    const gap = cell > 4 ? 1 : 0;
    for (let tile = 0; tile < program.tileCount; tile++) {
      const value = values[tile];
      const share = (value - lowest) / (highest - lowest || 1);
      const shade = value > options.limit ? over : palette[value > 0 ? Math.max(1, Math.round(share * 255)) : 0];
      const left = place.x(tile) * cell;
      const top = place.y(tile) * cell;
      for (let y = top; y < top + cell - gap; y++) pixels.fill(shade, y * canvas.width + left, y * canvas.width + left + cell - gap);
    }
    context.putImageData(image, 0, 0);
    const mark = (tile: number | null, name: string, width: number) => {
      if (tile === null || tile >= program.tileCount) return;
      context.strokeStyle = colour(name);
      context.lineWidth = width;
      context.strokeRect(place.x(tile) * cell - 0.5, place.y(tile) * cell - 0.5, cell, cell);
    };
    mark(hover, "text", 1);
    mark(options.selected(), "selected", 3);
  });

  const tileAt = (event: MouseEvent): number | null => {
    const box = canvas.getBoundingClientRect();
    const x = Math.floor(((event.clientX - box.left) / box.width) * place.columns);
    const y = Math.floor(((event.clientY - box.top) / box.height) * place.rows);
    return at.get(y * place.columns + x) ?? null;
  };
  on(canvas, "mousemove", (event) => {
    hover = tileAt(event);
    if (hover === null) tip.hide();
    else tip.show(options.describe(hover), event.offsetX, event.offsetY);
    draw();
  });
  on(canvas, "mouseleave", () => {
    hover = null;
    tip.hide();
    draw();
  });
  on(canvas, "click", (event) => {
    const tile = tileAt(event);
    if (tile !== null) options.onSelect(tile);
  });
  on(canvas, "keydown", (event) => {
    const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!move) return;
    event.preventDefault();
    const tile = options.selected();
    if (tile === null) return options.onSelect(0);
    let x = place.x(tile) + move[0];
    let y = place.y(tile) + move[1];
    for (; x >= 0 && y >= 0 && x < place.columns && y < place.rows; x += move[0], y += move[1]) {
      const found = at.get(y * place.columns + x);
      if (found !== undefined) return options.onSelect(found);
    }
  });
  const observer = new ResizeObserver(draw);
  observer.observe(element);
  return { element, redraw: draw, destroy: () => observer.disconnect() };
}
