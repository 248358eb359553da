// The AI SDK: `openai()`, which speaks the Responses API, and `openai.chat()`, whole and in streams.

import { createOpenAI } from "@ai-sdk/openai";
import { generateObject, generateText, streamObject, streamText, tool } from "ai";
import { z } from "zod";
import { BASE_URL, QUESTIONS, report } from "./report.mjs";

const provider = createOpenAI({ baseURL: BASE_URL, apiKey: "none" });
const pay = tool({ description: "Pays somebody.", inputSchema: z.object({ to: z.string(), amount: z.number() }) });
const schema = z.object({ city: z.string(), country: z.string() });
const calls = (found) => found.map(({ toolName, input }) => `${toolName}(${JSON.stringify(input)})`).join(", ");

const whole = (model) => async (kind) => {
  const options = { model, prompt: QUESTIONS[kind], maxRetries: 0 };
  if (kind === "structured") return JSON.stringify((await generateObject({ ...options, schema })).object);
  const { text, toolCalls } = await generateText({ ...options, ...(kind === "call" ? { tools: { pay } } : {}) });
  return calls(toolCalls) || text;
};
const stream = (model) => async (kind) => {
  let failure = null;
  const onError = ({ error }) => (failure = error);
  const options = { model, prompt: QUESTIONS[kind], maxRetries: 0, onError };
  if (kind === "structured") {
    let object;
    for await (const part of streamObject({ ...options, schema }).partialObjectStream) object = part;
    if (failure) throw failure;
    return JSON.stringify(object);
  }
  const result = streamText({ ...options, ...(kind === "call" ? { tools: { pay } } : {}) });
  let text = "";
  for await (const part of result.textStream) text += part;
  if (failure) throw failure;
  return calls(await result.toolCalls) || text;
};

await report("@ai-sdk/openai", {
  responses: whole(provider("g")),
  "responses, stream": stream(provider("g")),
  chat: whole(provider.chat("g")),
  "chat, stream": stream(provider.chat("g")),
});
