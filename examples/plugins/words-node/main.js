// A plugin in JavaScript: stores the meanings of words, and processes text.
// It implements the contract of the two .proto files in this folder, and needs nothing else of Mainstay.
"use strict";

const path = require("node:path");
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

const files = ["plugin.proto", "state.proto"].map((name) => path.join(__dirname, name));
const definition = loader.loadSync(files, { keepCase: true, defaults: true });
const { Plugin, State } = grpc.loadPackageDefinition(definition).mainstay.plugin.v1;

class ActionFailed extends Error {} // its message is shown to the model

// --- state: text by key ---

const kept = new State(`unix:${process.env.MAINSTAY_STATE_SOCKET}`, grpc.credentials.createInsecure(), {
  "grpc.enable_http_proxy": 0,
});

function ask(method, request) {
  return new Promise((resolve, reject) => {
    const options = { deadline: Date.now() + 10_000 };
    kept[method](request, options, (error, answer) => (error ? reject(new ActionFailed(error.details)) : resolve(answer)));
  });
}

// --- actions: arguments and the call in, text out ---

const actions = {
  async count({ text }) {
    return String(text.split(/\s+/u).filter(Boolean).length);
  },

  async repeat({ text, times }) {
    return Array(times).fill(text).join("\n");
  },

  async learn({ word, meaning }) {
    await ask("Set", { key: word, value: meaning });
    return `Learned: ${word}`;
  },

  async meaning({ word }) {
    const { value, found } = await ask("Get", { key: word });
    if (!found) throw new ActionFailed(`Nobody has told me what ${word} means.`);
    return value;
  },

  async forget({ word }) {
    const { found } = await ask("Delete", { key: word });
    return found ? `Forgotten: ${word}` : `I never knew ${word}.`;
  },

  async known({ prefix = "" }) {
    return JSON.stringify((await ask("Keys", { prefix })).keys);
  },

  async wait({ seconds }, call) {
    await new Promise((resolve) => {
      const timer = setTimeout(resolve, seconds * 1000);
      call.on("cancelled", () => {
        clearTimeout(timer);
        console.error(`call ${call.request.call_id} was called off`);
        resolve();
      });
    });
    return `${seconds} s have passed`;
  },
};

// Mainstay validates arguments against plugin.yaml before it sends them; this is the minimum check needed here.
function read(text) {
  const value = JSON.parse(text || "{}");
  if (value === null || typeof value !== "object" || Array.isArray(value)) throw new ActionFailed("Expected an object.");
  return value;
}

async function execute(call, answer) {
  const { call_id, action, arguments: text } = call.request;
  try {
    if (!Object.hasOwn(actions, action)) throw new ActionFailed(`There is no action ${action}.`);
    answer(null, { call_id, content: await actions[action](read(text), call) });
  } catch (error) {
    const known = error instanceof ActionFailed || error instanceof SyntaxError;
    if (!known) console.error(error);
    answer(null, { call_id, error: known ? error.message : `The action failed: ${error.name}.` });
  }
}

const server = new grpc.Server({ "grpc.max_receive_message_length": 16 << 20, "grpc.max_send_message_length": -1 });
server.addService(Plugin.service, { Execute: execute });
process.umask(0o077); // only the user that started the plugin may open the socket
server.bindAsync(`unix:${process.env.MAINSTAY_PLUGIN_SOCKET}`, grpc.ServerCredentials.createInsecure(), (error) => {
  if (error) throw error;
});

for (const signal of ["SIGTERM", "SIGINT"]) {
  process.on(signal, () => {
    setTimeout(() => server.forceShutdown(), 1000).unref();
    server.tryShutdown(() => process.exit(0));
  });
}
