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

  async create(terms = {}) {
    return new Sandbox(this, (await this.call("POST", "/sandbox/create", terms)).sandbox_id);
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
