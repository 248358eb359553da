begin((overview) => {
  const columns = overview.questions;
  const rows = columns.id.map((id, place) => {
    const row = { place, ...rowAt(columns, place) };
    row.verdict = row.coe === null ? "no response" : row.correct === null ? "no verdict" : verdictOf(row.correct);
    row.given = row.kind === "answer";
    row.mistake = { wrong: row.given ? 0 : 1, "partly right": 2, "no verdict": 3, right: 4 }[row.verdict] ?? 5;
    row.sought = `${row.text} ${row.answer ?? ""} ${id}`.toLowerCase();
    return row;
  });
  const judged = rows.filter((row) => row.correct !== null);
  if (judged.length) {
    showCurves(overview);
    showThreshold(overview, judged);
  } else {
    byId("curves-title").closest(".live").hidden = true;
  }
  const plane = new Plane(rows, overview.thresholds);
  new Questions([...rows], plane, overview.block);
});
