// What a view is. main.ts builds it when it is shown, tells it of changes of the selection, and ends it.
import type { Program } from "./model";
import type { Selection, State, Store } from "./store";

export interface Context {
  program: Program;
  /** All reports of the page, the shown one among them. */
  programs: Program[];
  store: Store;
  select: (selection: Partial<Selection>) => void;
  show: (view: string, selection?: Partial<Selection>) => void;
  /** Adds a report to compare with. */
  open: (file: File) => Promise<void>;
}

export interface Built {
  element: HTMLElement;
  update?: (state: State, before: State) => void;
  destroy?: () => void;
}

export interface View {
  id: string;
  title: string;
  icon: string;
  build: (context: Context) => Built;
}
