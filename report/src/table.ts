// A table of any length: only the rows in sight exist. Sorted by its heads, moved through with the arrow keys. Its last row has
// the sums of what the filter leaves, and so has each layer where the rows are shown by layer.
import { csvText, download } from "./csv";
import { type Child, checkbox, choice, empty, h, on, perFrame, replace } from "./dom";
import { figure } from "./figure";
import { rollUp, type Group, type Grouping } from "./groups";
import { integer, known, largest, total, type Maybe } from "./numbers";

export interface TableColumn<Row> {
  id: string;
  title: string;
  help?: string;
  numeric?: boolean;
  width: number;
  hidden?: boolean;
  /** What is sorted by, and shown if there is no `render`. */
  value: (row: Row) => number | string | null;
  render?: (row: Row) => Child;
  /** 0..1: a bar behind the number. */
  share?: (row: Row) => number;
  /** What stands in a file, where that is not `value`. */
  saved?: (row: Row) => number | string | null;
  /** Whether the rows' numbers add up, and how a number is shown. */
  sum?: boolean;
  format?: (value: Maybe) => string;
  /** Stays in sight when the others are scrolled: only the first columns. */
  stay?: boolean;
}

/** A column of numbers. */
export const numbers = <Row>(id: string, title: string, width: number, value: (row: Row) => Maybe, format: (value: Maybe) => string, more?: Partial<TableColumn<Row>>): TableColumn<Row> => ({
  id,
  title,
  width,
  numeric: true,
  value: (row) => value(row) ?? null,
  render: (row) => figure(value(row), format),
  format,
  ...more,
});

export const texts = <Row>(id: string, title: string, width: number, value: (row: Row) => string | null, more?: Partial<TableColumn<Row>>): TableColumn<Row> => ({ id, title, width, value, ...more });

export interface TableOptions<Row> {
  id: string;
  label: string;
  rows: Row[];
  columns: TableColumn<Row>[];
  key: (row: Row) => number;
  selected?: () => number | null;
  onSelect?: (row: Row) => void;
  sort?: { column: string; descending: boolean };
  height?: number;
  none: string;
  /** The text that the filter looks at; without it there is no filter. */
  filter?: (row: Row) => string;
  choose?: boolean;
  /** What its rows can be added up by. */
  groupings?: Grouping<Row>[];
  /** Kept by views that make the table anew. */
  state?: TableState;
  /** What the last row adds up, if not these rows. */
  whole?: { rows: number; sum: (column: string) => Maybe };
}

/** The filter, and the grouping by which the rows are shown. */
export interface TableState {
  text: string;
  by: string;
}

/** On a narrow screen, a column that stays is at most so wide that others fit beside it, and its texts have three lines (style/narrow.css). */
const isNarrow = () => innerWidth <= 560;
const narrowWidth = 150;

export class Table<Row> {
  readonly element: HTMLElement;
  private readonly scroller: HTMLElement;
  private readonly table: HTMLTableElement;
  private readonly status: HTMLElement;
  private sort: { column: string; descending: boolean } | null;
  private readonly state: TableState;
  private visible: Row[] = [];
  /** The groups, where they are shown in place of the rows. */
  private groups: Table<Group> | null = null;
  private readonly shown: Set<string>;
  private readonly draw = perFrame(() => this.fill());
  private everything = false;

  constructor(private readonly options: TableOptions<Row>) {
    this.sort = options.sort ?? null;
    const { text, by } = (this.state = options.state ?? { text: "", by: "" });
    this.shown = new Set(options.columns.filter((column) => !column.hidden).map((column) => column.id));
    this.table = h("table", { role: "grid", "aria-label": options.label });
    this.scroller = h("div.table-scroller", { id: `table-${options.id}`, tabindex: 0, role: "group", "aria-label": `${options.label}: use the arrow keys`, style: options.height ? `max-height:${options.height}px` : null },
      this.table,
    );
    this.status = h("span.table-status", { role: "status" });
    on(this.scroller, "scroll", this.draw, { passive: true });
    on(this.scroller, "keydown", (event) => this.key(event));
    const tools = [
      options.filter &&
        h("input", { type: "search", class: "filter", value: text, placeholder: "Filter", "aria-label": `Filter ${options.label}`, oninput: (event: Event) => this.setFilter((event.target as HTMLInputElement).value) }),
      options.groupings?.length &&
        choice("Rows", [["", "Each"], ...options.groupings.map((one) => [one.by, `By ${one.by}`] as const)], by, (value) => ((this.state.by = value), this.refresh())),
      options.choose &&
        h("details.columns", null,
          h("summary", null, "Columns"),
          h("div.columns-list", null, options.columns.map((column) => checkbox(column.title, this.shown.has(column.id), (on) => this.showColumn(column.id, on)))),
        ),
      options.filter && this.status,
      (options.filter || options.choose) && h("button", { type: "button", class: "quiet", title: "The rows that are shown, with all columns, as a file for a spreadsheet", onclick: () => download(`${document.title} ${(this.groups ?? this).options.id}.csv`, this.csv()) }, "CSV"),
    ];
    const body = options.rows.length ? [options.filter || options.choose ? h("div.tools", null, tools) : null, this.scroller] : [empty(options.none)];
    this.element = h("div.table", null, body);
    addEventListener("beforeprint", this.printing);
    this.refresh();
    new ResizeObserver(() => this.draw()).observe(this.scroller);
  }

  private readonly printing = (): void => {
    if (!this.element.isConnected) return removeEventListener("beforeprint", this.printing);
    this.everything = true;
    this.fill();
    addEventListener("afterprint", () => ((this.everything = false), this.draw()), { once: true });
  };

  private setFilter(text: string): void {
    this.state.text = text;
    this.scroller.scrollTop = 0;
    this.refresh();
  }

  private showColumn(id: string, on: boolean): void {
    if (on) this.shown.add(id);
    else this.shown.delete(id);
    this.refresh();
  }

  private columns(): TableColumn<Row>[] {
    return this.options.columns.filter((column) => this.shown.has(column.id));
  }

  private refresh(): void {
    const { rows, filter, columns } = this.options;
    const words = this.state.text.toLowerCase().split(/\s+/).filter(Boolean);
    this.visible = filter && words.length ? rows.filter((row) => words.every((word) => filter(row).toLowerCase().includes(word))) : [...rows];
    const sort = this.sort;
    const by = sort && columns.find((column) => column.id === sort.column);
    if (sort && by) {
      const sign = sort.descending ? -1 : 1;
      const keyed = this.visible.map((row) => ({ row, value: by.value(row) }));
      keyed.sort((a, b) => {
        if (a.value === null || b.value === null) return (a.value === null ? 1 : 0) - (b.value === null ? 1 : 0);
        return a.value < b.value ? -sign : a.value > b.value ? sign : 0;
      });
      this.visible = keyed.map(({ row }) => row);
    }
    this.status.textContent = this.visible.length === rows.length ? `${rows.length} rows` : `${this.visible.length} of ${rows.length} rows`;
    this.fill();
    if (!rows.length) return;
    this.groups = this.grouped();
    const shown = this.groups?.element ?? this.scroller;
    if (this.element.lastChild !== shown) this.element.lastChild!.replaceWith(shown);
  }

  /** The table of the groups that the rows are shown by, if they are. */
  private grouped(): Table<Group> | null {
    const { options } = this;
    const grouping = options.groupings?.find((one) => one.by === this.state.by);
    if (!grouping) return null;
    const added = options.columns.filter((column) => column.sum);
    const rows = rollUp(this.visible, grouping, added);
    const columns = added.map(({ id, title, help, width, stay, share, format }, at) => {
      const most = largest(rows, (row) => row.sums[at] ?? 0, 1);
      return numbers<Group>(id, title, width, (row) => row.sums[at], format ?? String, { help, stay, sum: true, hidden: !this.shown.has(id), share: share && ((row) => (row.sums[at] ?? 0) / most) });
    });
    const by = grouping.by;
    return new Table<Group>({
      id: `${options.id}-${by}`,
      label: `${options.label} by ${by}`,
      rows,
      columns: [texts("group", by === "layer" ? "Layer" : "Function", 260, (row) => grouping.name(row.id), { stay: options.columns[0].stay }), ...columns],
      key: (row) => row.id,
      sort: (this.groups ?? this).sort ?? undefined,
      height: options.height,
      none: "No rows are left.",
      whole: { rows: this.visible.length, sum: (id) => this.sum(added.find((column) => column.id === id)!) },
    });
  }

  /** The rows in the order in which they are shown, with all columns. */
  csv(): string {
    if (this.groups) return this.groups.csv();
    const { columns } = this.options;
    return csvText(columns.map((column) => column.title), this.visible.map((row) => columns.map((column) => (column.saved ?? column.value)(row))));
  }

  /** What the rows that are left add up to. */
  private sum(column: TableColumn<Row>): Maybe {
    const values = this.visible.map((row) => column.value(row) as Maybe).filter(known);
    return values.length ? total(values, Number) : null;
  }

  /** A row with the sums, where there is something to add. */
  private sums(columns: TableColumn<Row>[]): HTMLElement | null {
    const { whole } = this.options;
    const count = whole?.rows ?? this.visible.length;
    if (count < 2 || !columns.some((column) => column.sum)) return null;
    const cell = (column: TableColumn<Row>): Child => column.sum && figure(whole ? whole.sum(column.id) : this.sum(column), column.format ?? String, `sum_${column.id}`);
    // Its name may lie across the first columns, up to a sum or to those that are scrolled.
    const free = columns.findIndex((column) => column.sum || column.stay !== columns[0].stay);
    const name = this.cell("td", { ...columns[0], numeric: false }, columns, { colspan: Math.max(1, free) }, `Sum of ${integer(count)}`);
    return h("tfoot", null, h("tr", null, name, columns.slice(Math.max(1, free)).map((column) => this.cell("td", column, columns, null, cell(column)))));
  }

  private width(column: TableColumn<Row>): number {
    return column.stay && isNarrow() ? Math.min(column.width, narrowWidth) : column.width;
  }

  private get rowHeight(): number {
    return isNarrow() && this.options.columns.some((column) => column.stay) ? 60 : 30;
  }

  /** A cell of a column, which may be one that stays. */
  private cell(tag: "td" | "th", column: TableColumn<Row>, columns: TableColumn<Row>[], more: Parameters<typeof h>[1], ...children: Child[]): HTMLElement {
    const before = columns.findIndex((one) => one.id === column.id);
    const left = column.stay ? total(columns.slice(0, before), (one) => this.width(one)) : 0;
    const kinds = [column.numeric && "number", column.stay && "stay"].filter(Boolean).join(" ");
    return h(tag, { class: kinds || null, style: column.stay ? `left:${left}px` : null, ...more }, children);
  }

  private toggleSort(column: TableColumn<Row>): void {
    const descending = this.sort?.column === column.id ? !this.sort.descending : !!column.numeric;
    this.sort = { column: column.id, descending };
    this.refresh();
  }

  private fill(): void {
    const columns = this.columns();
    const height = this.scroller.clientHeight || 400;
    const first = this.everything ? 0 : Math.max(0, Math.floor(this.scroller.scrollTop / this.rowHeight) - 4);
    const last = this.everything ? Math.min(this.visible.length, 500) : Math.min(this.visible.length, first + Math.ceil(height / this.rowHeight) + 8);
    const chosen = this.options.selected?.() ?? null;
    this.table.style.minWidth = `${total(columns, (column) => this.width(column))}px`;
    this.table.setAttribute("aria-rowcount", String(this.visible.length + 1));
    const focused = document.activeElement instanceof HTMLElement && this.table.contains(document.activeElement) ? document.activeElement.dataset.sort : undefined;
    const spacer = (rows: number) => (rows > 0 ? h("tr", { "aria-hidden": "true", style: `height:${rows * this.rowHeight}px` }, h("td", { colspan: columns.length })) : null);
    const body = [];
    for (let at = first; at < last; at++) {
      const row = this.visible[at];
      const key = this.options.key(row);
      body.push(
        h(
          "tr",
          {
            id: `${this.options.id}-${key}`,
            "data-key": key,
            "aria-rowindex": at + 2,
            "aria-selected": this.options.onSelect ? String(key === chosen) : null,
            class: this.options.onSelect ? "selectable" : null,
            onclick: this.options.onSelect && (() => this.choose(row)),
          },
          columns.map((column) => {
            const share = column.share?.(row) ?? 0;
            const value = column.render ? column.render(row) : column.value(row);
            return this.cell(
              "td",
              column,
              columns,
              { title: typeof value === "string" ? value : null, "data-column": column.id },
              share > 0 ? h("span.bar", { style: `width:${Math.min(100, share * 100).toFixed(1)}%` }) : null,
              h("span", null, value ?? "–"),
            );
          }),
        ),
      );
    }
    replace(
      this.table,
      h("colgroup", null, columns.map((column) => h("col", { style: `width:${this.width(column)}px` }))),
      h(
        "thead",
        null,
        h(
          "tr",
          { "aria-rowindex": 1 },
          columns.map((column) => {
            const sorted = this.sort?.column === column.id ? (this.sort.descending ? "descending" : "ascending") : null;
            return this.cell(
              "th",
              column,
              columns,
              { "aria-sort": sorted, scope: "col" },
              h("button", { type: "button", title: column.help ?? null, "data-sort": column.id, onclick: () => this.toggleSort(column) }, column.title, sorted ? (sorted === "descending" ? " ↓" : " ↑") : ""),
            );
          }),
        ),
      ),
      h("tbody", null, spacer(first), body, spacer(this.visible.length - last)),
      ...[this.sums(columns)].filter((row) => row !== null),
    );
    if (focused) this.table.querySelector<HTMLElement>(`[data-sort="${focused}"]`)?.focus({ preventScroll: true });
    if (chosen !== null) this.scroller.setAttribute("aria-activedescendant", `${this.options.id}-${chosen}`);
    else this.scroller.removeAttribute("aria-activedescendant");
  }

  private choose(row: Row): void {
    if (getSelection()?.isCollapsed === false) return;
    this.options.onSelect?.(row);
    this.draw();
  }

  private key(event: KeyboardEvent): void {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity }[event.key];
    if (step === undefined || !this.options.onSelect || !this.visible.length) return;
    event.preventDefault();
    const chosen = this.options.selected?.() ?? null;
    const at = this.visible.findIndex((row) => this.options.key(row) === chosen);
    const to = Math.max(0, Math.min(this.visible.length - 1, at < 0 && Math.abs(step) <= 10 ? 0 : Math.max(0, at) + step));
    this.options.onSelect(this.visible[to]);
    this.reveal(this.options.key(this.visible[to]));
  }

  /** Draws again, and scrolls to the selected row if it is out of sight. */
  reveal(key: number | null): void {
    const at = key === null ? -1 : this.visible.findIndex((row) => this.options.key(row) === key);
    if (at >= 0) {
      const top = at * this.rowHeight;
      const height = this.scroller.clientHeight - this.rowHeight;
      if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
      else if (height > 0 && top + this.rowHeight > this.scroller.scrollTop + height) this.scroller.scrollTop = top + this.rowHeight - height;
    }
    this.draw();
  }
}
