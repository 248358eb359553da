// The question that is shown, as a program asks it: with curl, in Python and in JavaScript

import { codeBlock } from "./answer.js";
import { element } from "./parts.js";

const shell = (text) => `'${text.replaceAll("'", "'\\''")}'`;

function programs(model, messages, coe) {
  const address = `${location.origin}/v1`;
  const [name, asked, limits] = [model, messages, coe].map((value) => JSON.stringify(value));
  const isStricter = Object.keys(coe).length > 0;
  const body = JSON.stringify({ model, messages, ...(isStricter ? { coe } : {}) });
  const python = [
    "from openai import OpenAI",
    "",
    `client = OpenAI(base_url="${address}", api_key="none")`,
    "completion = client.chat.completions.create(",
    `    model=${name},`,
    `    messages=${asked},`,
    ...(isStricter ? [`    extra_body={"coe": ${limits}},`] : []),
    ")",
    "print(completion.choices[0].message.content)",
    'print(completion.coe["coe"], completion.coe["regime"])',
  ];
  const script = [
    'import OpenAI from "openai";',
    "",
    `const client = new OpenAI({ baseURL: "${address}", apiKey: "none" });`,
    "const completion = await client.chat.completions.create({",
    `  model: ${name},`,
    `  messages: ${asked},`,
    ...(isStricter ? [`  coe: ${limits},`] : []),
    "});",
    "console.log(completion.choices[0].message.content);",
    "console.log(completion.coe.coe, completion.coe.regime);",
  ];
  const curl = [`curl ${address}/chat/completions \\`, "  --header 'Content-Type: application/json' \\", `  --data ${shell(body)}`];
  return { curl, Python: python, JavaScript: script };
}

// The content of "use this from code"
export function programsFor(model, messages, coe) {
  const found = Object.entries(programs(model, messages, coe)).map(([name, lines]) => {
    const text = lines.join("\n");
    return codeBlock(name, [text], text);
  });
  const note = "If the server has a key, pass it as api_key, or as the header Authorization: Bearer KEY.";
  return [...found, element("p", "note", note)];
}
