// A client of Riddle's sandboxes for Node and browsers, without dependencies.
//
//     import { Client } from "./riddle-sandbox.mjs";
//     const sandbox = await new Client("http://127.0.0.1:8000").create({ max_execution_time: 30 });
//     console.log((await sandbox.execute("x = 20\nx + 1")).result);
//     await sandbox.delete();

export class SandboxError extends Error {
  constructor(status, type, message) {
    super(message);
    this.status = status;
    this.type = type;
  }
}

export class Client {
  constructor(url = "http://127.0.0.1:8000", key = null) {
    this.url = url.replace(/\/+$/, "");
    this.headers = key ? { Authorization: `Bearer ${key}` } : {};
  }

  async call(method, path, body, raw) {
    const headers = { ...this.headers };
    if (body !== undefined) headers["Content-Type"] = "application/json";
    else if (raw !== undefined) headers["Content-Type"] = "application/octet-stream";
    const response = await fetch(this.url + path, { method, headers, body: body === undefined ? raw : JSON.stringify(body) });
    const isJson = (response.headers.get("content-type") ?? "").startsWith("application/json");
    if (!response.ok) {
      const error = isJson ? (await response.json()).error ?? {} : {};
      throw new SandboxError(response.status, error.type ?? "HTTP", error.message ?? response.statusText);
    }
    return isJson ? response.json() : new Uint8Array(await response.arrayBuffer());
  }

  // [event, data] of each event of an answer that is a stream. Leaving the loop ends what runs.
  async *stream(path, body) {
    const leaving = new AbortController();
    const headers = { ...this.headers, "Content-Type": "application/json" };
    const response = await fetch(this.url + path, { method: "POST", headers, body: JSON.stringify(body), signal: leaving.signal });
    if (!response.ok) {
      const error = (await response.json().catch(() => ({}))).error ?? {};
      throw new SandboxError(response.status, error.type ?? "HTTP", error.message ?? response.statusText);
    }
    const decoder = new TextDecoder();
    let text = "";
    try {
      for await (const piece of response.body) {
        text += decoder.decode(piece, { stream: true });
        for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
          const lines = text.slice(0, end).split("\n");
          const data = lines.find((line) => line.startsWith("data: "));
          if (!data) continue; // a heartbeat
          const value = JSON.parse(data.slice(6));
          yield [lines.find((line) => line.startsWith("event: "))?.slice(7) ?? value.type, value];
        }
      }
    } finally {
      leaving.abort();
    }
  }

  async create(terms = {}) {
    return new Sandbox(this, (await this.call("POST", "/sandbox/create", terms)).sandbox_id);
  }

  async sandboxes() {
    const found = [];
    for (let next = "", page; next !== null; next = page.next) {
      page = await this.call("GET", `/sandbox${next ? `?cursor=${encodeURIComponent(next)}` : ""}`);
      found.push(...page.sandboxes);
    }
    return found;
  }

  open(id) {
    return new Sandbox(this, id);
  }

  quickExecute(code, context = null, config = null) {
    return this.call("POST", "/sandbox/agent/quick-execute", { code, context, config });
  }

  async statistics() {
    return (await this.call("GET", "/sandbox/statistics")).statistics;
  }
}

export class Sandbox {
  constructor(client, id) {
    this.client = client;
    this.id = id;
  }

  #call(method, what, body, raw) {
    return this.client.call(method, `/sandbox/${encodeURIComponent(this.id)}${what}`, body, raw);
  }

  #file(path) {
    return `/files/${path.split("/").map(encodeURIComponent).join("/")}`;
  }

  execute(code, context = null, more = {}) {
    return this.#call("POST", "/execute", { code, context, ...more });
  }

  // Steps through code: [event, data] of each event as it comes; the last ones are result and done.
  async *debug(code, options = {}) {
    yield* this.client.stream(`/sandbox/${encodeURIComponent(this.id)}/debug`, { code, ...options });
  }

  // What a database answers: `results` has an object for each row.
  query(sql, parameters = null, database = null) {
    return this.#call("POST", "/database/query", { query: sql, parameters, database });
  }

  async schema(database = null) {
    return (await this.#call("GET", `/database/schema${database ? `?database=${encodeURIComponent(database)}` : ""}`)).schema;
  }

  interrupt() {
    return this.#call("POST", "/interrupt");
  }

  async status() {
    return (await this.#call("GET", "/status")).data;
  }

  async history() {
    return (await this.#call("GET", "/history")).history;
  }

  async files() {
    return (await this.#call("GET", "/files")).files;
  }

  read(path) {
    return this.#call("GET", this.#file(path));
  }

  write(path, content) {
    return this.#call("PUT", this.#file(path), undefined, content);
  }

  remove(path) {
    return this.#call("DELETE", this.#file(path));
  }

  // A new sandbox on the same terms that goes on from the present state of this one.
  async fork() {
    return new Sandbox(this.client, (await this.#call("POST", "/fork")).sandbox_id);
  }

  // Keeps the present variables and files: the id to roll back to.
  async checkpoint(name = null) {
    return (await this.#call("POST", "/checkpoint", { name })).checkpoint_id;
  }

  async checkpoints() {
    return (await this.#call("GET", "/checkpoints")).checkpoints;
  }

  rollback(checkpoint) {
    return this.#call("POST", "/rollback", { checkpoint });
  }

  removeCheckpoint(checkpoint) {
    return this.#call("DELETE", `/checkpoints/${encodeURIComponent(checkpoint)}`);
  }

  delete() {
    return this.#call("DELETE", "");
  }
}
