// One selection that every view follows, kept in the page's address so that a place in a report can be linked to.

export interface Selection {
  operation: number | null;
  step: number | null;
  tile: number | null;
  variable: number | null;
}

export interface State extends Selection {
  view: string;
  /** Which of the page's reports is shown. */
  report: number;
}

type Listener = (state: State, before: State) => void;

export const nothing: Selection = { operation: null, step: null, tile: null, variable: null };

export class Store {
  state: State;
  private readonly listeners = new Set<Listener>();

  constructor(view: string) {
    this.state = { ...nothing, report: 0, view, ...Store.fromAddress() };
  }

  private static fromAddress(): Partial<State> {
    const found: Partial<State> = {};
    const parameters = new URLSearchParams(location.hash.slice(1));
    const view = parameters.get("view");
    if (view) found.view = view;
    for (const key of ["operation", "step", "tile", "variable", "report"] as const) {
      const text = parameters.get(key);
      if (text !== null && /^\d+$/.test(text)) found[key] = Number(text);
    }
    return found;
  }

  listen(listener: Listener): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  set(change: Partial<State>): void {
    const before = this.state;
    const after = { ...before, ...change };
    const keys = Object.keys(after) as (keyof State)[];
    if (keys.every((key) => after[key] === before[key])) return;
    this.state = after;
    const parts = keys.filter((key) => after[key] !== null && !(key === "report" && after[key] === 0));
    // Not a new entry of the history: going back leaves the report.
    history.replaceState(null, "", `#${parts.map((key) => `${key}=${after[key]}`).join("&")}`);
    for (const listener of [...this.listeners]) listener(after, before);
  }
}
