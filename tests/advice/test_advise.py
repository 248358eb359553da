"""`advise`: each figure is computed again by an independent program, with plain NumPy and scikit-learn."""

import json
from hashlib import sha256
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score

from coe_agents.advice import advise
from coe_agents.advice.advice import _adjust, _Answers, _Group
from coe_agents.evaluation.calibration.learned import fit_trust
from coe_agents.policy import CalibratedPolicy
from tests.cli.command import run
from tests.evaluation.invented import group, row, write

AGENTS = ("a", "b", "c")
N = 90
ANSWERS = ("right", "wrong 1", "wrong 2", "wrong 3")
RIGHT = 0
N_FOLDS = 5


def invented(n=N):
    """Agents of unequal skill, each with two responses to a question and a stated confidence."""
    generator = np.random.default_rng(3)
    rows = []
    for number in range(n):
        ease = generator.random()
        for agent, skill in zip(AGENTS, (0.4, 0.1, -0.2), strict=True):
            for index in range(2):
                is_right = generator.random() < ease + skill
                place = RIGHT if is_right else generator.integers(1, 4)
                confidence = np.clip(ease + generator.normal(0, 0.2), 0, 1)
                response = row(
                    f"q{number:03}",
                    agent,
                    index,
                    ANSWERS[place],
                    references=["right"],
                    confidence=float(confidence),
                )
                rows.append(response)
    return rows


class Program:
    """The independent program. A response is the place of its answer in ANSWERS: shape (question, agent, index)."""

    def __init__(self, rows):
        said = [ANSWERS.index(each["text"]) for each in rows]
        stated = [each["confidence"] for each in rows]
        self.said = np.array(said).reshape(-1, 3, 2)
        self.confidence = np.array(stated).reshape(-1, 3, 2).mean(axis=2)
        self.shares = self.to_shares(self.said)
        self.mean = self.shares.mean(axis=1)
        self.right = self.right_by(self.mean)
        self.votes = 1 - self.mean.max(axis=1)

        ids = [f"q{number:03}" for number in range(len(self.said))]

        def deal(place):
            is_wrong = 1 - self.right[place]
            return is_wrong, sha256(ids[place].encode()).digest()

        order = sorted(range(len(ids)), key=deal)
        self.fold = np.empty(len(ids), dtype=int)
        self.fold[order] = np.arange(len(ids)) % N_FOLDS

    @staticmethod
    def to_shares(said):
        return np.stack([(said == answer).mean(axis=2) for answer in range(4)], axis=2)

    @staticmethod
    def leads(support):
        """Which answers have the most support, alone or with others."""
        most = support.max(axis=1, keepdims=True)
        return np.isclose(support, most, atol=1e-9)

    def right_by(self, support):
        leads = self.leads(support)
        return leads[:, RIGHT] / leads.sum(axis=1)

    def support(self):
        """How much of its responses each agent gives to the leading answer, shape (question, agent)."""
        leads = self.leads(self.mean)
        support_of_leaders = (self.shares * leads[:, None]).sum(axis=2)
        return support_of_leaders / leads.sum(axis=1)[:, None]

    def auroc(self, right, score):
        areas = []
        for k in range(N_FOLDS):
            is_own = self.fold == k
            own_right = right[is_own]
            scores = np.round(score[is_own], 9)
            # each question enters as wrong and as right, with the share of either as its weight
            weights = np.concatenate([1 - own_right, own_right])
            labels = np.repeat([1, 0], own_right.size)
            area = roc_auc_score(labels, np.tile(scores, 2), sample_weight=weights)
            areas.append(area)
        return np.mean(areas)

    def predict(self, features):
        """P(wrong) by a ridge logistic regression on the other four folds."""
        chances = np.empty(len(self.right))
        for k in range(N_FOLDS):
            others = self.fold != k
            rows = np.vstack([features[others]] * 2)
            targets = np.repeat([1, 0], others.sum())
            weights = np.concatenate([1 - self.right[others], self.right[others]])
            model = LogisticRegression(C=1.0, solver="newton-cholesky", tol=1e-9)
            model.fit(rows, targets, weights)
            chances[~others] = model.predict_proba(features[~others])[:, 1]
        return chances

    def loss(self, chance):
        labels = np.repeat([1, 0], chance.size)
        weights = np.concatenate([1 - self.right, self.right])
        return log_loss(labels, np.tile(chance, 2), sample_weight=weights)

    def weights_by_agreement(self, questions):
        """s^3 of the other folds."""
        shares = self.shares[questions]
        cubes = []
        for i in range(3):
            meetings = [(shares[:, i] * shares[:, j]).sum(axis=1) for j in range(3) if j != i]
            cubes.append(np.mean(meetings) ** 3)
        return np.array(cubes) / np.sum(cubes)

    def weights_by_labels(self, questions):
        """Learned on the other folds; an answer that no agent gives is no cluster."""
        shares = []
        right = []
        for rows in self.shares[questions]:
            is_said = rows.sum(axis=0) > 0
            shares.append(rows[:, is_said])
            right.append(np.eye(4)[RIGHT][is_said])
        return fit_trust(shares, right)

    def votes_by(self, weigh, *, confidence=1.0):
        """The weighted votes of each answer, shape (question, answer), by weights of the other folds."""
        votes = np.empty((len(self.right), 4))
        confidences = np.ones(self.shares.shape[:2]) * confidence
        counted = self.shares * confidences[:, :, None]
        for k in range(N_FOLDS):
            is_own = self.fold == k
            weights = weigh(~is_own)
            votes[is_own] = np.einsum("a,qac->qc", weights, counted[is_own])
        return votes

    def coverage(self, right, score, is_given, risk):
        """Which questions are answered: below the highest threshold whose risk on the other folds is low enough."""
        answered = np.zeros(len(right))
        for k in range(N_FOLDS):
            is_own = self.fold == k
            others = ~is_own & is_given
            wrong = 1 - right[others]
            thresholds = []
            for threshold in np.unique(score[others]):
                if wrong[score[others] <= threshold].mean() <= risk + 1e-9:
                    thresholds.append(threshold)
            highest = max(thresholds, default=-1)
            is_answered = is_given & (score <= highest + 1e-9)
            answered[is_own] = is_answered[is_own]
        return answered

    def without_each(self):
        """By the name of the agent that is left out: the support of each answer among the others."""
        rest = {}
        for place, name in enumerate(AGENTS):
            rest[name] = np.delete(self.shares, place, axis=1).mean(axis=1)
        return rest


@pytest.fixture(scope="module")
def advised(tmp_path_factory):
    folder = tmp_path_factory.mktemp("advised")
    samples = write(folder / "s.samples.jsonl", invented())
    done = run("advise", samples, "--json", "--resamples", 400)
    return samples, done


def scores_of(program):
    """The uncertainty of each question by each score, with equal weights."""
    mean = program.mean
    entropy = -(mean * np.log(np.where(mean > 0, mean, 1))).sum(axis=1)
    confident_votes = program.votes_by(equally, confidence=program.confidence)
    trust = np.empty((N, 3))
    for k in range(N_FOLDS):
        trust[program.fold == k] = program.weights_by_agreement(program.fold != k)
    return {
        "vote_share": program.votes,
        "coe": entropy,
        "confidence_vote_share": 1 - confident_votes.max(axis=1),
        "trusted_vote_share": 1 - (program.support() * trust).sum(axis=1),
    }


def check_gains(found, program, fits, areas):
    """What weights and confidences gain, and what each agent brings."""
    weight_gains = {}
    for name, weigh in fits.items():
        weighted = program.right_by(program.votes_by(weigh))
        weight_gains[name] = (weighted - program.right).mean()
    assert values_of(found["weight_gains"]) == pytest.approx(weight_gains)

    stated_gain = areas["confidence_vote_share"] - areas["vote_share"]
    assert values_of(found["confidence_gains"]) == pytest.approx({"stated": stated_gain})

    without = {}
    for name, rest in program.without_each().items():
        without[name] = (program.right_by(rest) - program.right).mean()
    assert values_of(found["without"]) == pytest.approx(without)


def check_order(found, program):
    """Each next agent is the one whose support lowers the loss most, beside those before it."""
    support = program.support()
    left = [0, 1, 2]
    chosen = []
    before = program.loss(np.full(N, 1 - program.right.mean()))
    for name, nats in found["order"]:
        losses = {}
        for agent in left:
            chance = program.predict(support[:, [*chosen, agent]])
            losses[agent] = program.loss(chance)
        best = min(left, key=losses.get)
        assert name == AGENTS[best]
        assert nats == pytest.approx(before - losses[best], abs=1e-6)

        left.remove(best)
        chosen.append(best)
        before = losses[best]


def check_sample_losses(found, program, areas):
    """What is lost with a single response of each agent."""
    first = program.to_shares(program.said[:, :, :1]).mean(axis=1)
    right_by_one = program.right_by(first)
    accuracy_lost = right_by_one.mean() - program.right.mean()
    area_lost = program.auroc(right_by_one, 1 - first.max(axis=1)) - areas["vote_share"]

    lost = found["sample_losses"]["1"]
    assert lost["accuracy"]["value"] == pytest.approx(accuracy_lost)
    assert lost["auroc"]["value"] == pytest.approx(area_lost)


def check_coverage(found, program, fits, scores):
    """How many are answered at a risk, by the score and the weights that were chosen."""
    weigh = fits.get(found["weights"], equally)
    reads_confidence = found["score"] == "confidence_vote_share"
    confidence = program.confidence if reads_confidence else 1.0
    votes = program.votes_by(weigh, confidence=confidence)
    right = program.right_by(votes)
    uncertainty = scores["coe"] if found["score"] == "coe" else 1 - votes.max(axis=1)
    is_given = program.leads(votes).sum(axis=1) == 1

    for risk in (0.05, 0.1, 0.2):
        answered = program.coverage(right, np.round(uncertainty, 9), is_given, risk)
        realised = answered @ (1 - right) / answered.sum()
        assert found["coverage"][str(risk)][0] == pytest.approx(answered.mean())
        assert found["realised"][str(risk)] == pytest.approx(realised)


def check_escalation(found, program):
    """The most uncertain fifth goes to a person; ties are drawn by lot."""
    rounded = np.round(-program.votes, 9)
    _, ranks, counts = np.unique(rounded, return_inverse=True, return_counts=True)
    n_escalated = 0.2 * N
    n_before = np.cumsum(counts) - counts
    chance_of_rank = np.clip((n_escalated - n_before) / counts, 0, 1)
    chance = chance_of_rank[ranks]

    assert found["escalated_right"] == pytest.approx(chance @ program.right / n_escalated)
    assert found["escalation_gain"][0] == pytest.approx(chance @ (1 - program.right) / N)


@pytest.mark.slow
def test_each_figure_is_that_of_an_independent_program(advised):
    _, done = advised
    found = json.loads(done.stdout)
    program = Program(invented())
    assert found["n_questions"] == N
    assert found["accuracy"][0] == pytest.approx(program.right.mean())

    scores = scores_of(program)
    areas = {name: program.auroc(program.right, score) for name, score in scores.items()}
    assert found["scores"] == pytest.approx(areas)

    fits = {"agreement": program.weights_by_agreement, "learned": program.weights_by_labels}
    check_gains(found, program, fits, areas)
    check_order(found, program)
    check_sample_losses(found, program, areas)
    check_coverage(found, program, fits, scores)
    check_escalation(found, program)


@pytest.mark.slow
def test_the_best_agent_alone_is_chosen_on_the_other_folds(advised):
    _, done = advised
    found = json.loads(done.stdout)
    program = Program(invented())

    each_alone = np.array([program.right_by(program.shares[:, i]) for i in range(3)])
    alone = np.empty(N)
    for k in range(N_FOLDS):
        is_own = program.fold == k
        best = each_alone[:, ~is_own].mean(axis=1).argmax()
        alone[is_own] = each_alone[best, is_own]

    best_of_all = each_alone.mean(axis=1).argmax()
    assert found["best"] == AGENTS[best_of_all]
    assert found["best_overall"] == pytest.approx(each_alone.mean(axis=1).max())
    assert found["best_accuracy"][0] == pytest.approx(alone.mean())
    if found["weights"] == "equal":
        gain = (program.right - alone).mean()
        assert found["over_best"]["value"] == pytest.approx(gain)


def values_of(table):
    return {name: each["value"] for name, each in table.items()}


def equally(questions):
    return np.full(3, 1 / 3)


@pytest.mark.slow
def test_p_values_are_adjusted_and_intervals_wider(advised):
    _, done = advised
    found = json.loads(done.stdout)
    program = Program(invented())
    changes = {}
    for name, rest in program.without_each().items():
        changes[name] = program.right_by(rest) - program.right

    generator = np.random.default_rng(0)
    drawn = np.array([np.bincount(generator.integers(N, size=N), minlength=N) for _ in range(4000)])
    resampled = {name: drawn @ change / N for name, change in changes.items()}

    p_values = {}
    for name, change in changes.items():
        in_deviations = abs(change.mean()) / resampled[name].std()
        p_values[name] = 2 * norm.sf(in_deviations)
    # by Holm: the lowest counts three times, the next twice; none falls below one before it
    order = sorted(p_values, key=p_values.get)
    times = [min(1, (len(order) - place) * p_values[name]) for place, name in enumerate(order)]
    adjusted = np.maximum.accumulate(times)

    for name, p_value in zip(order, adjusted, strict=True):
        without = found["without"][name]
        low, high = np.quantile(resampled[name], [0.025 / 3, 1 - 0.025 / 3])
        assert without["p"] == pytest.approx(p_value, rel=0.5, abs=0.02)
        assert without["low"] == pytest.approx(low, abs=0.02)
        assert without["high"] == pytest.approx(high, abs=0.02)


def test_below_fifty_labelled_questions_there_is_no_advice(tmp_path):
    rows = invented(60)
    rows_of_a_question = 6
    for each in rows[: 11 * rows_of_a_question]:
        each["references"] = []
    samples = write(tmp_path / "s.samples.jsonl", rows)
    policy = tmp_path / "policy.json"

    run("advise", samples, "--out", policy, code=1)  # 49 are labelled
    assert not policy.exists()


def test_answers_that_are_all_right_leave_nothing_to_compare(tmp_path):
    rows = [{**each, "text": "right"} for each in invented(50)]
    samples = write(tmp_path / "s.samples.jsonl", rows)

    said = run("advise", samples, "--resamples", 20).stdout
    for sentence in (
        "50 labelled questions; the group is right in 100.0% [100.0%, 100.0%].",
        "The best agent alone, a, is right in 100.0% [100.0%, 100.0%]: it is as good",
        "This bound is empirical, since the same labels chose the score and the weights",
    ):
        assert sentence in said
    assert said.count("\n") == 11


def test_a_named_agent_is_given_no_accuracy_but_its_own(tmp_path):
    # a and b are right by turns, almost equally often: on some folds the one is the best, on others the other
    texts = [("r", "x", "x"), ("y", "r", "x")] * 30 + [("r", "y", "x")]
    samples = write(tmp_path / "s.samples.jsonl", _said_by_abc(texts))

    found = json.loads(run("advise", samples, "--resamples", 20, "--json").stdout)
    said = run("advise", samples, "--resamples", 20).stdout
    assert found["best"] == "a"
    assert found["best_overall"] == pytest.approx(31 / 61)
    assert found["best_accuracy"][0] < found["best_overall"]
    assert (
        f"chosen for each fifth on the others, is right in {found['best_accuracy'][0]:.1%}" in said
    )
    assert "(a, the best of all, in 50.8%)" in said


def test_the_gain_over_the_best_agent_says_with_which_weights(tmp_path):
    texts = [("r", "r", "x"), ("r", "x", "r")] * 23 + [("r", "x", "y")] * 14
    samples = write(tmp_path / "s.samples.jsonl", _said_by_abc(texts))
    said = run("advise", samples, "--resamples", 50).stdout
    assert "The best agent alone, a, is right in 100.0%" in said
    assert "(the group's gain over it, with agreement weights, is " in said


def _said_by_abc(texts):
    rows = []
    for number, of_question in enumerate(texts):
        for agent, text in zip("abc", of_question, strict=True):
            rows.append(row(f"q{number:03}", agent, 0, text, references=["r"]))
    return rows


def test_a_policy_that_needs_weights_has_them(tmp_path):
    # a is always right; b and c agree with it by turns, and where all differ, equal weights are a lottery
    texts = [("r", "r", "x"), ("r", "x", "r")] * 23 + [("r", "x", "y")] * 14
    samples = write(tmp_path / "s.samples.jsonl", _said_by_abc(texts))
    policy = tmp_path / "policy.json"

    done = run("advise", samples, "--resamples", 50, "--out", policy)
    assert "Weights: agreement." in done.stdout
    calibration = CalibratedPolicy.load(policy).calibration
    assert calibration.trust_from == "agreement"
    assert max(calibration.trust, key=calibration.trust.get) == "a"
    assert calibration.weights is None  # the graph keeps equal ones


def test_scores_that_rank_all_questions_alike_have_no_interval(tmp_path):
    """With a response each, three agents agree, or two of them, or none: CoE rises as the vote share falls."""
    samples = write(tmp_path / "s.samples.jsonl", group(70, n_samples=1))
    said = run("advise", samples, "--resamples", 20).stdout
    line = said.splitlines()[1]
    assert line.startswith("Score: vote_share. AUROC within folds: vote_share 0.")
    assert "; coe +0.000 in every resample; " in line
    assert "[+0.000, +0.000]" not in said


@pytest.mark.parametrize("rows", [5, "rows", [5], [{"id": "q1"}]])
def test_what_is_no_row_is_refused_with_the_way_to_get_rows(rows):
    with pytest.raises(TypeError, match=r'"rows" must be .*; got .* Pass samples\.judge\(\)'):
        advise(rows)


def test_the_highest_threshold_answers_where_just_the_risk_is_wrong_and_what_ties_with_it():
    # of the 20 surest of the other fold 1 is wrong: just .05; with the next there are 2
    surest = [0.1] * 20
    others = [*surest, 0.2]
    own = [0.1, 0.1 + 1e-10, 0.2]
    right = np.ones(len(others) + len(own))
    right[[0, 20]] = 0.0
    answers = _Answers(right, np.array(others + own), np.ones(right.size, dtype=bool))
    outside = np.arange(len(others))
    inside = np.arange(len(others), right.size)
    folds = SimpleNamespace(rows=right, _splits=[(outside, inside)])
    is_answered = _Group.choose_answered(folds, answers, 0.05)
    assert is_answered[inside].tolist() == [1.0, 1.0, 0.0]


def test_p_values_are_those_of_holm():
    def drawn(in_deviations):
        return in_deviations, np.array([in_deviations - 1.0, in_deviations + 1.0])

    adjusted = _adjust({"c": drawn(2.0), "a": drawn(-3.0), "b": drawn(2.1), "d": drawn(0.0)})
    p_values = {key: adjusted[key].p for key in "abcd"}
    raw = {key: 2 * norm.sf(z) for key, z in {"a": 3.0, "b": 2.1, "c": 2.0, "d": 0.0}.items()}
    # the smallest of four counts four times, the next three times, and none is below the one before
    expected = {"a": 4 * raw["a"], "b": 3 * raw["b"], "c": 3 * raw["b"], "d": 1.0}
    assert 2 * raw["c"] < 3 * raw["b"]
    assert p_values == pytest.approx(expected)
