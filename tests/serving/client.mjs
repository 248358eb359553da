// Drives a server with the JavaScript SDK, as a chat interface does, and prints what it saw as JSON.
// node client.mjs FOLDER URL, where FOLDER has @langchain/langgraph-sdk in its node_modules.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder, url] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${folder}/`));
const { Client } = require("@langchain/langgraph-sdk");
const client = new Client({ apiUrl: url });
const human = (content) => ({ messages: [{ type: "human", content }] });
const FRANCE = "What is the capital of France?";
const JAPAN = "What is the capital of Japan?";
const AUSTRALIA = "What is the capital of Australia?";
const seen = {};

const values = await client.runs.wait(null, "gated_answer", { input: { question: FRANCE } });
seen.answer = values.decision.answer;

let thread = (await client.threads.create()).thread_id;
await client.runs.wait(thread, "gated_answer", { input: human(FRANCE) });
const second = await client.runs.wait(thread, "gated_answer", { input: human(JAPAN) });
seen.second = [second.decision.action, second.decision.coe];

const bold = await client.runs.wait(null, "gated_answer", { input: { question: AUSTRALIA }, context: { max_coe: 0.9 } });
const plain = await client.runs.wait(null, "gated_answer", { input: { question: AUSTRALIA } });
seen.context = [plain.decision.action, bold.decision.action];
seen.misspelt = await client.runs
  .wait(null, "gated_answer", { input: { question: AUSTRALIA }, context: { max_co: 0.9 } })
  .then(() => "accepted", (error) => String(error.message));

const modes = ["values", "updates", "messages-tuple", "events", "custom", "debug", "tasks", "checkpoints"];
seen.modes = {};
for (const streamMode of modes) {
  let parts = 0;
  const { thread_id } = await client.threads.create(); // checkpoints are of a thread
  for await (const part of client.runs.stream(thread_id, "gated_answer", { input: human(FRANCE), streamMode })) {
    if (part.event === "error") throw new Error(JSON.stringify(part.data));
    parts += 1;
  }
  seen.modes[streamMode] = parts;
}

// what Agent Chat UI sends: a typed message, then a reply that does not fit, then its button
thread = (await client.threads.create()).thread_id;
const booking = human("Book Canberra, Australia.");
const asked = await client.runs.wait(thread, "gated_tools_agent", { input: booking });
seen.buttons = asked.__interrupt__[0].value.review_configs[0].allowed_decisions;
const again = await client.runs.wait(thread, "gated_tools_agent", { command: { resume: "approve" } });
seen.again = again.__interrupt__[0].value.action_requests[0].description.split("\n")[0];
const decisions = [{ type: "approve" }];
const approved = await client.runs.wait(thread, "gated_tools_agent", { command: { resume: { decisions } } });
seen.approved = approved.messages.at(-1).content;

thread = (await client.threads.create()).thread_id;
await client.runs.wait(thread, "gated_tools_agent", { input: booking });
const typed = await client.runs.wait(thread, "gated_tools_agent", { input: human("approve") });
seen.typed = typed.messages.map((message) => message.type);
seen.closed = typed.messages[2].content;

thread = (await client.threads.create()).thread_id;
const waiting = await client.runs.wait(thread, "escalation_to_person", { input: human(AUSTRALIA) });
seen.candidates = waiting.__interrupt__[0].value.action_requests[0].args.candidates;
const decided = await client.runs.wait(thread, "escalation_to_person", { command: { resume: { decisions } } });
seen.decided = [decided.decision.decided_by, decided.decision.answer];

const chain = await client.runs.wait(null, "sequential_agents", { input: human("What is the chemical symbol for aluminium?") });
seen.chain = chain.messages.map((message) => message.type);
console.log(JSON.stringify(seen));
