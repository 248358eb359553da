// What `report.py` is, for scripts in JavaScript: the folder of the packages comes after the address.

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

export const BASE_URL = process.argv[2];
export const QUESTIONS = {
  answer: "What is the capital?",
  refusal: "Which is the best city?",
  call: "Pay Ann 5",
  structured: "Which place is it?",
  failure: "Who is there?",
};

export async function report(name, forms) {
  const found = new URL(`./node_modules/${name}/package.json`, import.meta.url);
  const { version } = JSON.parse(readFileSync(fileURLToPath(found), "utf8"));
  const shown = {};
  for (const [form, ask] of Object.entries(forms)) {
    shown[form] = {};
    for (const kind of Object.keys(QUESTIONS)) {
      try {
        shown[form][kind] = await ask(kind);
      } catch (error) {
        shown[form][kind] = { error: error.name, message: String(error.message) };
      }
    }
  }
  console.log(JSON.stringify({ version, shown }));
}
