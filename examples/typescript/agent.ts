// An agent in TypeScript, on plain fetch: its steps are judged and on record before they are done, and what it has done
// is taken back by whoever takes the tasks, in any language.
//
//   node agent.js book ID      open the session ID, or take it up again, and book a trip in it
//   node agent.js work COUNT   make that many calls that wait for somebody, such as compensations
//
// AMENDS_URL and AMENDS_TOKEN say which server, and who this is. The world is a file of lines, WORLD.

import { appendFileSync, existsSync, readFileSync, rmSync } from "node:fs";

type Args = Record<string, string>;
type Report = { outcome: "succeeded" | "failed" | "lost" | "happened" | "not_happened"; result?: unknown; why?: string };

/** A call that the server asks for: with its key, the same on every attempt, and what is known of its step. */
type Task = { token: string; part: string; topic: string; args: Args; key: string; result?: unknown; certain?: boolean };

/** Where a step stands: its call is to be made, or it has ended, or people are asked. */
type Standing =
  | ({ state: "perform" } & Task)
  | { state: "succeeded"; result: unknown }
  | { state: "failed" | "lost" | "denied"; error: { topic: string; reason: string; rule: string } }
  | { state: "pending" | "running" | "taken" };

const server = process.env.AMENDS_URL ?? "http://127.0.0.1:8722";
const headers = { Authorization: `Bearer ${process.env.AMENDS_TOKEN}`, "Content-Type": "application/json" };

/** One request. What is asked may be asked again: a step is named by its call, a report by its token. */
async function ask<T>(method: "GET" | "POST", path: string, body?: object): Promise<T> {
  const answer = await fetch(`${server}/v1${path}`, { method, headers, body: body && JSON.stringify(body) });
  const told: unknown = await answer.json();
  const { type, detail } = told as { type?: string; detail?: string };
  if (!answer.ok) throw new Error(`${type}: ${detail}`);
  return told as T;
}

// -- the world, and what can be done in it ----------------------------------------------------------------------------

const world = process.env.WORLD ?? "world.txt";
const deeds = () => (existsSync(world) ? readFileSync(world, "utf8").split("\n") : []);
const note = (line: string) => appendFileSync(world, `${line}\n`);

/** How a session ended; in the state `running` it has not yet. */
type End = { state: string; status: string };

/** An action: what it promises, and its functions. */
type Action = { contract: object; parts: Record<string, (task: Task) => Report> };

const reserve: Action = {
  contract: { topic: "trip.reserve", compensation: true, undoes: "Give the seat back." },
  parts: {
    action: ({ args }) => (note(`reserve ${args.seat}`), { outcome: "succeeded", result: `seat ${args.seat}` }),
    compensation: ({ args }) => (note(`release ${args.seat}`), { outcome: "succeeded" }),
  },
};

const charge: Action = {
  contract: { topic: "trip.charge", compensation: true, probe: true, risk: ["money"], undoes: "Pay it back." },
  parts: {
    action: ({ args, key }) => {
      note(`charge ${args.card} ${key}`);
      const crash = process.env.CRASH; // the worst moment: it has happened, and nobody knows
      if (crash && existsSync(crash)) {
        rmSync(crash);
        process.kill(process.pid, "SIGKILL");
      }
      return { outcome: "succeeded", result: `paid by ${args.card}` };
    },
    compensation: ({ args }) => (note(`refund ${args.card}`), { outcome: "succeeded" }),
    // Asked where a report was lost: did it happen? The bank knows it by the key.
    probe: ({ args, key }) =>
      deeds().includes(`charge ${args.card} ${key}`)
        ? { outcome: "happened", result: `paid by ${args.card}` }
        : { outcome: "not_happened" },
  },
};

const actions: Record<string, Action> = { "trip.reserve": reserve, "trip.charge": charge };

/** Make a call that the server asks for. What an exception leaves behind, nobody knows: that is what lost means. */
function make(task: Task): Report {
  const part = actions[task.topic]?.parts[task.part];
  if (!part) return { outcome: "failed", why: `no ${task.part} of ${task.topic} here` };
  try {
    return part(task);
  } catch (error) {
    return { outcome: "lost", why: String(error) };
  }
}

// -- a session --------------------------------------------------------------------------------------------------------

class Session {
  private constructor(readonly id: string, private readonly holder: string) {}

  /** Open a session, or take it up again. While what was lost is settled, its tasks are taken here. */
  static async open(name: string, id: string): Promise<Session> {
    for (;;) {
      const opened = await ask<{ holder: string; state: string }>("POST", "/sessions", { name, id, wait: 1 });
      if (opened.state === "open") return new Session(id, opened.holder);
      await takeTask(`&saga=${encodeURIComponent(id)}`, 1);
    }
  }

  private post<T>(verb: string, body: object): Promise<T> {
    return ask("POST", `/sessions/${encodeURIComponent(this.id)}/${verb}`, { holder: this.holder, ...body });
  }

  /** Do one step. `call` is its own id: the same call again is the same step, and is answered from the record. */
  async do(action: Action, args: Args, call: string): Promise<unknown> {
    const { topic } = action.contract as { topic: string };
    const asked = { topic, args, call, contract: action.contract };
    let stands = await this.post<Standing>("steps", asked);
    for (;;) {
      switch (stands.state) {
        case "perform":
          stands = await ask("POST", `/attempts/${stands.token}/outcome`, make(stands));
          break;
        case "succeeded":
          return stands.result;
        case "failed":
        case "lost":
        case "denied":
          throw new Error(`${stands.error.topic} ${stands.state}: ${stands.error.reason}`);
        default: // people are asked, or it is not known yet
          stands = await this.post<Standing>("steps", asked);
      }
    }
  }

  complete(result: unknown): Promise<End> {
    return this.end("complete", { result });
  }

  fail(error: Error): Promise<End> {
    return this.end("fail", { error: { type: error.name, reason: error.message } });
  }

  /** Ask until it is over, or waits for somebody: an answer comes within seconds, and a rollback may take longer. */
  private async end(verb: string, body: object): Promise<End> {
    for (;;) {
      const stands = await this.post<End>(verb, body);
      if (stands.state !== "running") return stands;
    }
  }
}

// -- a worker ---------------------------------------------------------------------------------------------------------

/** Wait for one call that somebody has to make, make it, and report. */
async function takeTask(which = "", wait = 20): Promise<boolean> {
  const topics = Object.keys(actions).map((topic) => `topic=${topic}`).join("&");
  const { task } = await ask<{ task: Task | null }>("GET", `/tasks?${topics}${which}&wait=${wait}`);
  if (task) await ask("POST", `/attempts/${task.token}/outcome`, { ...make(task), wait: 0 });
  return task !== null;
}

// -- the command ------------------------------------------------------------------------------------------------------

const [, , command, argument] = process.argv;
if (command === "book") {
  const session = await Session.open("trip.agent", argument);
  try {
    const seat = await session.do(reserve, { seat: "12A" }, "seat");
    const paid = await session.do(charge, { card: "visa" }, "pay");
    console.log(JSON.stringify(await session.complete({ seat, paid })));
  } catch (error) {
    console.log(JSON.stringify(await session.fail(error as Error)));
  }
} else if (command === "work") {
  for (let left = Number(argument); left > 0; ) if (await takeTask()) left -= 1;
} else {
  console.error("node agent.js book ID | node agent.js work COUNT");
  process.exitCode = 2;
}
export {};
