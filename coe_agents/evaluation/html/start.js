async function start() {
  const overview = await unpacked("overview");
  const columns = overview.questions;
  const rows = columns.id.map((id, place) => {
    const row = { place, ...Object.fromEntries(Object.entries(columns).map(([name, values]) => [name, values[place]])) };
    const known = row.correct === null ? "no verdict" : { 0: "wrong", 1: "right" }[row.correct] ?? "partly right";
    row.verdict = row.coe === null ? "no response" : known;
    row.given = row.kind === "answer";
    row.mistake = { wrong: row.given ? 0 : 1, "partly right": 2, "no verdict": 3, right: 4 }[row.verdict] ?? 5;
    row.sought = `${row.text} ${row.answer ?? ""} ${id}`.toLowerCase();
    return row;
  });
  const judged = rows.filter((row) => row.correct !== null);
  for (const section of document.querySelectorAll(".live")) section.hidden = false;
  if (judged.length) {
    showCurves(overview);
    showThreshold(overview, judged);
  } else {
    byId("curves-title").closest(".live").hidden = true;
  }
  const plane = new Plane(rows, overview.thresholds);
  new Questions([...rows], plane, overview.block);
  byId("state").hidden = true;
  document.documentElement.dataset.ready = Math.round(performance.now());
}

start().catch((error) => {
  byId("state").textContent = `Charts and questions cannot be shown: ${error.message}`;
  throw error;
});
