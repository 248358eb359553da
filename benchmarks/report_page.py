"""Prints what a report of many questions costs: seconds to write, size, and seconds until a browser can use it.

    python benchmarks/report_page.py [QUESTIONS] [--write FILE]

Three agents answer each question ten times, in invented sentences. Needs Chromium.
"""

import sys
import tempfile
import time
from pathlib import Path

from result_page import result_page
from score_scale import write_samples

sys.path.insert(0, str(Path(__file__).parents[1]))
from coe_agents.clustering import NormalizedMatch
from coe_agents.evaluation import Samples
from coe_agents.evaluation.scoring.scores import ScoringSetup
from coe_agents.pages.report_page import create_page
from tests.chromium import Page, running_chromium


def main() -> None:
    n_questions = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder, "s.samples.jsonl"), Path(folder, "report.html")
        write_samples(path, n_questions, n_words=(12, 12), forms=("{}",))
        start, cpu = time.perf_counter(), time.process_time()
        with Samples([path]) as questions:
            out.write_text(
                create_page(questions, ScoringSetup(NormalizedMatch()), title="Invented"), "utf-8"
            )
        print(
            f"{n_questions} questions, {n_questions * 30} responses, {path.stat().st_size / 1e6:.1f} MB of samples"
        )
        print(
            f"written in {time.perf_counter() - start:.1f} s ({time.process_time() - cpu:.1f} CPU s)"
        )
        print(f"page of {out.stat().st_size / 1e6:.1f} MB")
        with running_chromium() as pipe:
            times_of: dict[str, list[float]] = {
                "usable after": [],
                "search": [],
                "open": [],
                "drag": [],
            }
            for _ in range(5):
                tab = Page(pipe)
                tab.open(out)
                times_of["usable after"].append(
                    float(tab.run("document.documentElement.dataset.ready"))
                )
                for name, script in ACTIONS.items():
                    times_of[name].append(
                        tab.run(
                            f"(async () => {{ const t = performance.now(); {script}; return performance.now() - t }})()"
                        )
                    )
        for name, times in times_of.items():
            print(
                f"{name:12} {sorted(times)[2]:6.0f} ms, median of 5 ({min(times):.0f} to {max(times):.0f})"
            )


SEEN = "await new Promise((shown) => requestAnimationFrame(() => setTimeout(shown)))"
ACTIONS = {
    "search": f"search.value = 'ab'; search.dispatchEvent(new Event('input')); {SEEN}",
    "open": "document.querySelector('.open').click(); "
    f"while (!document.querySelector('.detail')) await new Promise((r) => setTimeout(r)); {SEEN}",
    "drag": f"epistemic.value = 0.5; epistemic.dispatchEvent(new Event('input')); {SEEN}",
}


if __name__ == "__main__":
    with result_page():
        main()
