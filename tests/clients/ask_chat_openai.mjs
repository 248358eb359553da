// LangChain's `ChatOpenAI` for JavaScript.

import { ChatOpenAI } from "@langchain/openai";
import { tool } from "@langchain/core/tools";
import { z } from "zod";
import { BASE_URL, QUESTIONS, report } from "./report.mjs";

const model = new ChatOpenAI({ model: "g", apiKey: "none", maxRetries: 0, configuration: { baseURL: BASE_URL } });
const pay = tool(() => "paid", { name: "pay", description: "Pays.", schema: z.object({ to: z.string(), amount: z.number() }) });
const schema = z.object({ city: z.string(), country: z.string() });
const objects = model.withStructuredOutput(schema, { method: "jsonSchema" });
const said = ({ content, tool_calls: calls, additional_kwargs: extra }) => {
  const called = (calls ?? []).map(({ name, args }) => `${name}(${JSON.stringify(args)})`).join(", ");
  return called || content || extra?.refusal || "";
};
const chosen = (kind) => (kind === "call" ? model.bindTools([pay]) : model);

await report("@langchain/openai", {
  whole: async (kind) => {
    if (kind !== "structured") return said(await chosen(kind).invoke(QUESTIONS[kind]));
    return JSON.stringify(await objects.invoke(QUESTIONS[kind]));
  },
  stream: async (kind) => {
    let all;
    if (kind === "structured") {
      for await (const object of await objects.stream(QUESTIONS[kind])) all = object;
      return JSON.stringify(all);
    }
    for await (const chunk of await chosen(kind).stream(QUESTIONS[kind])) all = all ? all.concat(chunk) : chunk;
    return said(all);
  },
});
