// Drives src/dap with the client that Microsoft tests debug adapters with. Arguments: the port, the token, and the name of a
// scenario below. Prints what the scenario saw as one line of JSON.
const path = require("path");
const { DebugClient } = require(path.resolve(__dirname, "../../third_party/dap-client/main.js"));

const [port, token, scenario] = process.argv.slice(2);
const FILE = "/home/ann/work.py";
const dc = new DebugClient("none", "none", "debugpy");
const output = { stdout: "", stderr: "", console: "", important: "" };
dc.on("output", (e) => (output[e.body.category] += e.body.output));

const attach = async (more = {}, command = "attach") => {
  const capabilities = (await dc.initializeRequest({ adapterID: "debugpy", linesStartAt1: true, pathFormat: "path" })).body;
  const initialized = dc.waitForEvent("initialized");
  await dc.send(command, { token, ...more });
  await initialized;
  return capabilities;
};
const breakpoints = async (...points) =>
  (await dc.setBreakpointsRequest({ source: { path: FILE }, breakpoints: points })).body.breakpoints;
const stopped = async (action) => {
  const wait = dc.waitForEvent("stopped");
  await action();
  const event = (await wait).body;
  const frames = (await dc.stackTraceRequest({ threadId: 1, startFrame: 0, levels: 20 })).body.stackFrames;
  return { ...event, line: frames[0].line, frames };
};
const locals = async (frameId = 1, scope = 0) => {
  const scopes = (await dc.scopesRequest({ frameId })).body.scopes;
  return variables(scopes[scope].variablesReference);
};
const variables = async (variablesReference) => {
  const list = (await dc.variablesRequest({ variablesReference })).body.variables;
  return { reference: variablesReference, ...Object.fromEntries(list.map((v) => [v.name, v])) };
};
const evaluate = async (expression, context = "watch", frameId = 1) =>
  (await dc.evaluateRequest({ expression, frameId, context })).body;
const refused = async (promise) => {
  try {
    await promise;
  } catch (error) {
    return error.message;
  }
  throw new Error("it was not refused");
};
const done = () => dc.configurationDoneRequest();
const next = () => dc.nextRequest({ threadId: 1 });
const toEnd = async (action = () => dc.continueRequest({ threadId: 1 })) => {
  const end = dc.waitForEvent("terminated");
  await action();
  await end;
};

const scenarios = {
  async breakpoints() {
    const capabilities = await attach();
    const told = await breakpoints({ line: 2 }, { line: 6, condition: "i == 2" }, { line: 999 });
    const first = await stopped(done);
    const inside = await locals();
    const scopes = (await dc.scopesRequest({ frameId: 1 })).body.scopes.map((s) => s.name);
    const globals = Object.keys(await locals(1, 1));
    const caller = await evaluate("total + 1", "watch", 2).catch((e) => e.message);
    const out = await stopped(() => dc.stepOutRequest({ threadId: 1 }));
    await breakpoints({ line: 6, condition: "i == 2" });
    const conditional = await stopped(() => dc.continueRequest({ threadId: 1 }));
    const i = await evaluate("i", "hover");
    await dc.setExceptionBreakpointsRequest({ filters: [] });
    await toEnd();
    return { capabilities, told, first, inside, scopes, globals, caller, out, conditional, i, output };
  },
  async values() {
    await attach({ stopOnEntry: true }, "launch");
    await breakpoints({ line: 5 });
    const entry = await stopped(done);
    const at = await stopped(() => dc.continueRequest({ threadId: 1 }));
    const top = await locals();
    const inner = await variables(top.data.variablesReference);
    const deep = await variables(inner["'k'"].variablesReference);
    const item = (await dc.setVariableRequest({ variablesReference: deep.reference, name: "[1]", value: "20 + 2" })).body;
    const number = (await dc.setVariableRequest({ variablesReference: top.reference, name: "n", value: "41" })).body;
    const expression = (await dc.send("setExpression", { expression: "data['new']", value: "n + 1", frameId: 1 })).body;
    const statement = await evaluate("n += 1", "repl");
    const list = await evaluate("[n, n * 2]");
    const held = await variables(list.variablesReference);
    const wrong = await refused(evaluate("1 / 0"));
    await toEnd();
    const late = await refused(evaluate("n"));
    return { entry, at, inner, deep, item, number, expression, statement, list, held, wrong, late, output };
  },
  async back() {
    await attach();
    await breakpoints({ line: 2 });
    const first = await stopped(done);
    for (let i = 0; i < 4; i++) await stopped(next);
    const there = await evaluate("walked");
    const one = await stopped(() => dc.stepBackRequest({ threadId: 1 }));
    const hit = await stopped(() => dc.reverseContinueRequest({ threadId: 1 }));
    const earlier = await stopped(() => dc.reverseContinueRequest({ threadId: 1 }));
    const start = await stopped(() => dc.reverseContinueRequest({ threadId: 1 }));
    const before = await refused(evaluate("walked"));
    const edge = await refused(dc.stepBackRequest({ threadId: 1 }));
    await breakpoints();
    await stopped(next);
    await dc.setVariableRequest({ variablesReference: (await locals()).reference, name: "walked", value: "100" });
    await toEnd();
    return { first, there, one, hit, earlier, start, before, edge, output };
  },
  async exception() {
    await attach();
    await dc.setExceptionBreakpointsRequest({ filters: ["uncaught"] });
    const at = await stopped(done);
    const info = (await dc.send("exceptionInfo", { threadId: 1 })).body;
    await toEnd();
    return { at, info, output };
  },
  async pause() {
    await attach();
    const looping = dc.waitForEvent("output");
    await done();
    await looping;
    const at = await stopped(() => dc.pauseRequest({ threadId: 1 }));
    const n = Number((await evaluate("n")).result);
    await evaluate("keep_going = False", "repl");
    await toEnd();
    return { at, n, output };
  },
  async logpoint() {
    await attach();
    const told = await breakpoints({ line: 3, logMessage: "total is {total}", hitCondition: ">= 2" });
    await toEnd(done);
    return { told, output };
  },
  async detach() {
    await attach();
    await breakpoints({ line: 2 });
    const at = await stopped(done);
    await dc.disconnectRequest({ terminateDebuggee: false });
    return { at };
  },
  async source() {
    await attach();
    const at = await stopped(() => dc.configurationDoneRequest());
    const text = (await dc.sourceRequest({ sourceReference: at.frames[0].source.sourceReference })).body.content;
    await toEnd();
    return { at, text };
  },
  async refused() {
    await dc.initializeRequest({ adapterID: "debugpy" });
    return { why: await refused(dc.send("attach", { token })) };
  },
};

(async () => {
  setTimeout(() => {
    console.error("nothing more came", JSON.stringify(output));
    process.exit(1);
  }, 40000);
  await dc.start(Number(port));
  const seen = await scenarios[scenario]();
  if (scenario !== "detach") await dc.stop();
  console.log(JSON.stringify(seen));
  process.exit(0);
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
