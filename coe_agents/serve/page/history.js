// The questions of the session, kept by the browser until the tab is closed: they are there after a reload

const MOST = { entries: 30, characters: 2_000_000 };

const keyOf = (model) => `coe-agents ${model}`;

export function save(model, entries) {
  const kept = entries.slice(-MOST.entries).map((entry) => JSON.stringify({ ...entry, agents: [...entry.agents] }));
  while (kept.reduce((sum, { length }) => sum + length, 0) > MOST.characters) kept.shift();
  try {
    sessionStorage.setItem(keyOf(model), `[${kept.join(",")}]`);
  } catch {
    // the browser keeps nothing, or is full: the questions are there until the page is left
  }
}

export function load(model) {
  try {
    const found = JSON.parse(sessionStorage.getItem(keyOf(model)) ?? "[]");
    return found.map((entry) => ({ ...entry, agents: new Map(entry.agents) }));
  } catch {
    return []; // of another version of the page
  }
}
