// A run of the program: what the host did, as it was measured, beside what the chip does in modelled time.
import { indices } from "../chart";
import { empty, h, panel, plainTable } from "../dom";
import { figure } from "../figure";
import type { Run } from "../format";
import { cycles, integer } from "../numbers";
import { kinds, nested, ns, runTimeline } from "../run_timeline";
import { numbers, Table } from "../table";
import type { Built, Context, View } from "../view";

/** Time of each kind of event, outermost events only, in the lines of one clock. */
function byKind(run: Run, clock: string): [string, number][] {
  const sums = new Map<string, number>();
  for (const line of run.lines) {
    if (line.clock !== clock) continue;
    for (const index of nested(line)[0] ?? []) {
      const kind = line.kinds[line.event[index]];
      sums.set(kind, (sums.get(kind) ?? 0) + line.duration[index]);
    }
  }
  return [...sums].sort((a, b) => b[1] - a[1]);
}

function build(context: Context): Built {
  const { run } = context.program.data;
  if (!run) {
    return {
      element: h("div.view", null,
        panel("Run", null,
          empty("The report has no run: nothing was measured for it. Record one with jax.profiler.trace(folder), and give it to the report: report.with_profile(folder), or jax-ipu report --profile folder."),
        ),
      ),
    };
  }
  const time = runTimeline(run, "Timeline of a run: the host, measured, and the chip, modelled", run.runs, "run");
  const clock = context.program.data.chip.clock_hz;
  const table = new Table<number>({
    id: "runs",
    label: "Runs",
    rows: [...indices(run.runs.length)],
    columns: [
      numbers("run", "Run", 60, (row) => row + 1, integer),
      numbers("device", "IPU", 60, (row) => run.runs[row].device, integer),
      numbers("chip", "On the chip", 110, (row) => run.runs[row].duration, ns, { help: "Modelled, with the host link" }),
      numbers("cycles", "Cycles", 100, (row) => run.runs[row].cycles, cycles, { help: "Modelled, without the host link" }),
      numbers("begin", "Begins", 100, (row) => run.runs[row].host_begin, ns, { help: "Measured, since the recording began" }),
      numbers("host", "Model on the host", 140, (row) => run.runs[row].host_duration, ns, { help: "Measured: how long this machine took to compute what the chip would compute" }),
    ],
    key: (row) => row,
    onSelect: (row) => time.show(run.runs[row].begin, run.runs[row].duration),
    sort: { column: "run", descending: false },
    height: 260,
    none: "There are no runs.",
  });
  time.redraw();
  const sums = (of: "measured" | "modelled") => plainTable(["", "#Time"], byKind(run, of).map(([kind, duration]) => [kinds[kind]?.[0] ?? kind, figure(duration, ns, `${of}_${kind.replace(" ", "_")}`)]));
  return {
    element: h("div.view", null,
      panel(
        "Run",
        [
          figure(run.runs.length, integer, "runs"),
          ` runs of the program in ${run.source}. The host is measured: threads of this process on the machine that made the recording. The chip is modelled at ${clock / 1e6} MHz: a program begins when the host starts it, or when the chip has finished the one before. Drag to move, Ctrl + wheel to zoom, double click an event to see all of it.`,
          run.left_out ? ` ${integer(run.left_out)} short events are left out.` : "",
        ],
        time.element,
      ),
      h("div.columns-2", null,
        panel("Measured, by kind", "Outermost events of each thread. The time in which the model computes is that of this machine, and no time of an IPU.", sums("measured")),
        panel("Modelled, by kind", "Programs contain their operations, phases and transfers.", sums("modelled")),
      ),
      panel("Runs of the program", "A click shows a run on the chip.", table.element),
    ),
    destroy: time.destroy,
  };
}

export const run: View = { id: "run", title: "Run", icon: "M1 2h9v3H1zM4 6.5h4v3H4zM8 11h7v3H8z", build };
