// Max-pooled levels of a byte matrix, so that drawing 1,472 tiles x 10,000 steps costs a few cells per pixel.

export class Pyramid {
  private readonly levels = new Map<number, Uint8Array>();

  constructor(
    readonly rows: number,
    readonly columns: number,
    base: Uint8Array,
  ) {
    this.levels.set(0, base);
  }

  /** Cells pooled over 2^x rows and 2^y columns; its width is ceil(columns / 2^y). */
  level(x: number, y: number): Uint8Array {
    const key = x * 32 + y;
    const known = this.levels.get(key);
    if (known) return known;
    const halveRows = x > 0;
    const from = halveRows ? this.level(x - 1, y) : this.level(0, y - 1);
    const width = Math.ceil(this.columns / 2 ** y);
    const rows = Math.ceil(this.rows / 2 ** x);
    const pooled = new Uint8Array(rows * width);
    if (halveRows) {
      const fromRows = Math.ceil(this.rows / 2 ** (x - 1));
      for (let row = 0; row < rows; row++) {
        const a = 2 * row * width;
        const b = 2 * row + 1 < fromRows ? a + width : a;
        const to = row * width;
        for (let i = 0; i < width; i++) pooled[to + i] = from[a + i] > from[b + i] ? from[a + i] : from[b + i];
      }
    } else {
      const fromWidth = Math.ceil(this.columns / 2 ** (y - 1));
      for (let row = 0; row < rows; row++) {
        for (let i = 0; i < width; i++) {
          const a = row * fromWidth + 2 * i;
          const b = 2 * i + 1 < fromWidth ? a + 1 : a;
          pooled[row * width + i] = from[a] > from[b] ? from[a] : from[b];
        }
      }
    }
    this.levels.set(key, pooled);
    return pooled;
  }

  /**
   * Draws tiles [top, bottom) over `height` pixels, in the pixel columns [x0, x1). For each, first[x] and last[x] (inclusive) are the rows
   * of the matrix under it.
   */
  draw(
    image: Uint32Array,
    width: number,
    height: number,
    x0: number,
    x1: number,
    first: Int32Array,
    last: Int32Array,
    top: number,
    bottom: number,
    palette: Uint32Array,
  ): void {
    const perPixel = (bottom - top) / height;
    const y = Math.max(0, Math.floor(Math.log2(Math.max(1, perPixel))));
    const levelWidth = Math.ceil(this.columns / 2 ** y);
    const low = new Int32Array(height);
    const high = new Int32Array(height);
    for (let i = 0; i < height; i++) {
      low[i] = Math.min(levelWidth - 1, Math.floor((top + i * perPixel) / 2 ** y));
      const end = Math.ceil(top + (i + 1) * perPixel - 1e-9) - 1;
      high[i] = Math.max(low[i], Math.min(levelWidth - 1, Math.floor(end / 2 ** y)));
    }
    // Pooled over the rows of each pixel column; neighbours often have the same rows.
    const left = low[0];
    const span = high[height - 1] + 1 - left;
    const pooled = new Uint8Array((x1 - x0) * span);
    const at = new Int32Array(width);
    for (let column = x0; column < x1; column++) {
      const from = first[column];
      const to = last[column];
      if (column > x0 && first[column - 1] === from && last[column - 1] === to) {
        at[column] = at[column - 1];
        continue;
      }
      const target = (at[column] = (column - x0) * span);
      const x = Math.max(0, Math.floor(Math.log2(to - from + 1)) - 1);
      const cells = this.level(x, y);
      const end = to >> x;
      for (let row = from >> x; row <= end; row++) {
        const base = row * levelWidth + left;
        for (let i = 0; i < span; i++) if (cells[base + i] > pooled[target + i]) pooled[target + i] = cells[base + i];
      }
    }
    // Row by row, as the image lies in memory.
    for (let row = 0; row < height; row++) {
      const lowest = low[row];
      const highest = high[row];
      for (let column = x0, out = row * width + x0; column < x1; column++, out++) {
        const base = at[column] - left;
        let value = pooled[base + lowest];
        for (let i = lowest + 1; i <= highest; i++) if (pooled[base + i] > value) value = pooled[base + i];
        image[out] = palette[value];
      }
    }
  }
}
