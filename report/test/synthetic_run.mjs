// Beside a synthetic report: a run, with three threads and a chip, and the schedule of a pipeline of two stages.

function line(name, clock, device, events) {
  const names = [...new Set(events.map(([event, kind]) => `${event}\0${kind}`))];
  return {
    name, clock, device,
    names: names.map((one) => one.split("\0")[0]),
    kinds: names.map((one) => one.split("\0")[1]),
    event: events.map(([event, kind]) => names.indexOf(`${event}\0${kind}`)),
    begin: events.map((event) => event[2]),
    duration: events.map((event) => event[3]),
  };
}

export function syntheticRun() {
  const begins = [30_000, 400_000];
  const each = (events) => begins.flatMap((begin) => events.map(([name, kind, at, duration]) => [name, kind, begin + at, duration]));
  return {
    source: "host.xplane.pb", duration: 900_000, left_out: 7,
    runs: begins.map((begin) => ({ device: 0, cycles: 12_000, begin: begin + 60_000, duration: 20_000, host_begin: begin + 55_000, host_duration: 210_000 })),
    lines: [
      line("Host thread 1 (python)", "measured", null, each([["PjitFunction(step)", "dispatch", 0, 300_000], ["DevicePut", "transfer", 5_000, 40_000], ["PjRtCApiLoadedExecutable::Execute", "dispatch", 50_000, 230_000]])),
      line("Host thread 2 (python)", "measured", null, each([["ipu callback train.py:12", "callback", 100_000, 50_000]])),
      line("IPU 0 (the model)", "measured", 0, each([["jit_step", "model", 55_000, 210_000]])),
      line("Programs", "modelled", 0, each([["jit_step", "program", 60_000, 20_000]])),
      line("Phases", "modelled", 0, each([["sync", "sync", 64_000, 100], ["exchange", "exchange", 64_100, 900], ["compute", "compute", 65_000, 9_000]])),
      line("Host link", "modelled", 0, each([["from host: images", "host link", 60_000, 4_000]])),
    ],
  };
}

/** Three micro-batches, forward only: a stage takes 100 cycles, a copy 10. */
export function syntheticSchedule() {
  const trips = [0, 1, 2, 3];
  const lines = [0, 1].map((stage) =>
    line(`IPU ${stage}, stage ${stage}`, "modelled", stage, trips.flatMap((trip) => {
      const batch = trip - stage;
      const work = batch >= 0 && batch < 3 ? [String(batch), "forward"] : ["idle", "idle"];
      return [[...work, trip * 110, 100], ["", "links", trip * 110 + 100, 10]];
    })),
  );
  const rows = [0, 1].map((stage) => ({ ipu: stage, stage, work: 300, links: 40, other: 0, idle: 100 }));
  return { kind: "loop", stages: 2, batches: 3, executions: 1, duration: 440, idle: 200 / 880, rows, lines };
}
