// The schedule of a pipeline: a row for each IPU, with the micro-batches that it computes, its copies and its bubbles.
import { empty, h, panel, plainTable } from "../dom";
import { figure } from "../figure";
import { cycles, integer, percent, seconds } from "../numbers";
import { runTimeline } from "../run_timeline";
import type { Built, Context, View } from "../view";

function build(context: Context): Built {
  const { schedule: found, chip } = context.program.data;
  if (!found) return { element: h("div.view", null, panel("Schedule", null, empty("The program is no pipeline over several IPUs. The report of jax_ipu.pipeline(…).report(…), and of a loop that hands micro-batches from IPU to IPU, has a schedule."))) };
  const { rows, lines, duration, batches } = found;
  // Of each micro-batch: from its first stage to its last.
  const stops = [...Array(batches).keys()].flatMap((batch) => {
    const times = lines.flatMap((line) => line.event.flatMap((event, at) => (line.names[event] === String(batch) ? [line.begin[at], line.begin[at] + line.duration[at]] : [])));
    return times.length ? [{ begin: Math.min(...times), duration: Math.max(...times) - Math.min(...times) }] : [];
  });
  const time = runTimeline(found, "Schedule of the pipeline, a row for each IPU", stops, "micro-batch", true);
  time.redraw();
  const sums = (["work", "links", "other", "idle"] as const).map((key) => [key, (at: number) => figure(rows[at][key], cycles, `${key}_${at}`)] as const);
  return {
    element: h("div.view", null,
      panel(
        "Schedule",
        [
          figure(found.idle, percent, "schedule_idle"),
          ` of the time of the IPUs are bubbles, in which ${found.kind === "loop" ? "they compute no micro-batch because the first has not come or the last has gone" : "they wait"}. ${integer(found.stages)} stages, ${integer(batches)} micro-batches, ${cycles(duration)} cycles, ${seconds(duration / chip.clock_hz)}${found.executions > 1 ? `, ${integer(found.executions)} times in a call` : ""}${found.kind === "loop" ? "" : `, ${found.kind}`}.`,
        ],
        time.element,
      ),
      panel("Each IPU", "In cycles. Copies are those that no stage's work overlaps.", plainTable(["IPU", "#Stage", "#Work", "#IPU-Links", "#Other", "#Idle", "#Of its time"], rows.map((row, at) => [integer(row.ipu), integer(row.stage), ...sums.map(([, cell]) => cell(at)), percent(row.idle / duration)]))),
    ),
    destroy: time.destroy,
  };
}

export const schedule: View = { id: "schedule", title: "Schedule", icon: "M1 2h6v3H1zM5 6.5h6v3H5zM9 11h6v3H9z", build };
