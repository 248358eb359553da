"""`advise`: each figure is computed again by an independent program, with plain NumPy and scikit-learn."""

import json
from hashlib import sha256

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score

from coe_agents.evaluation.calibration.learned import fit_trust
from coe_agents.policy import CalibratedPolicy
from tests.cli.command import run
from tests.evaluation.invented import row, write

AGENTS, N, ANSWERS = ("a", "b", "c"), 90, ("right", "wrong 1", "wrong 2", "wrong 3")


def invented(n=N):
    """Agents of unequal skill, each with two responses to a question and a stated confidence."""
    generator = np.random.default_rng(3)
    rows = []
    for number in range(n):
        ease = generator.random()
        for agent, skill in zip(AGENTS, (0.4, 0.1, -0.2), strict=True):
            for index in range(2):
                is_right = generator.random() < ease + skill
                text = ANSWERS[0 if is_right else generator.integers(1, 4)]
                stated = float(np.clip(ease + generator.normal(0, 0.2), 0, 1))
                rows.append(
                    row(f"q{number:03}", agent, index, text, references=["right"])
                    | {"confidence": stated}
                )
    return rows


class Program:
    """The independent program. A response is the place of its answer in ANSWERS: shape (question, agent, index)."""

    def __init__(self, rows):
        self.said = np.array([ANSWERS.index(each["text"]) for each in rows]).reshape(-1, 3, 2)
        self.stated = np.array([each["confidence"] for each in rows]).reshape(-1, 6)
        self.shares = self.to_shares(self.said)
        self.right = self.right_by(self.shares.mean(axis=1))
        ids = [f"q{number:03}" for number in range(len(self.said))]
        order = sorted(
            range(len(ids)), key=lambda i: (1 - self.right[i], sha256(ids[i].encode()).digest())
        )
        self.fold = np.empty(len(ids), dtype=int)
        self.fold[order] = np.arange(len(ids)) % 5
        self.votes = 1 - self.shares.mean(axis=1).max(axis=1)

    @staticmethod
    def to_shares(said):
        return np.stack([(said == answer).mean(axis=2) for answer in range(4)], axis=2)

    @staticmethod
    def right_by(support):
        leads = np.isclose(support, support.max(axis=1, keepdims=True), atol=1e-9)
        return leads[:, 0] / leads.sum(axis=1)

    def auroc(self, right, score):
        found = []
        for k in range(5):
            own, values = right[self.fold == k], np.round(score[self.fold == k], 9)
            weights = np.concatenate([1 - own, own])
            labels = np.repeat([1, 0], own.size)
            found.append(roc_auc_score(labels, np.tile(values, 2), sample_weight=weights))
        return np.mean(found)

    def predict(self, features):
        """P(wrong) by a ridge logistic regression on the other four folds."""
        found = np.empty(len(self.right))
        for k in range(5):
            out = self.fold != k
            x, y = np.vstack([features[out]] * 2), np.repeat([1, 0], out.sum())
            weights = np.concatenate([1 - self.right[out], self.right[out]])
            model = LogisticRegression(C=1.0, solver="newton-cholesky", tol=1e-9).fit(x, y, weights)
            found[~out] = model.predict_proba(features[~out])[:, 1]
        return found

    def loss(self, chance):
        labels = np.repeat([1, 0], chance.size)
        return log_loss(
            labels, np.tile(chance, 2), sample_weight=np.concatenate([1 - self.right, self.right])
        )

    def weights_by_agreement(self, questions):
        """s^3 of the other folds."""
        shares = self.shares[questions]
        s = [
            np.mean([(shares[:, i] * shares[:, j]).sum(axis=1) for j in range(3) if j != i])
            for i in range(3)
        ]
        return np.array(s) ** 3 / np.sum(np.array(s) ** 3)

    def weights_by_labels(self, questions):
        """Learned on the other folds; an answer that no agent gives is no cluster."""
        shares, right = [], []
        for rows in self.shares[questions]:
            is_said = rows.sum(axis=0) > 0
            shares.append(rows[:, is_said])
            right.append(np.eye(4)[0][is_said])
        return fit_trust(shares, right)

    def votes_by(self, weigh, *, confidence=1.0):
        """The weighted votes of each answer, shape (question, answer), by weights of the other folds."""
        found = np.empty((len(self.right), 4))
        counted = self.shares * (np.ones(self.shares.shape[:2]) * confidence)[:, :, None]
        for k in range(5):
            weights = weigh(self.fold != k)
            found[self.fold == k] = np.einsum("a,qac->qc", weights, counted[self.fold == k])
        return found

    def coverage(self, right, score, is_given, risk):
        answered = np.zeros(len(right))
        for k in range(5):
            out = (self.fold != k) & is_given
            thresholds = [
                t
                for t in np.unique(score[out])
                if (1 - right[out])[score[out] <= t].mean() <= risk + 1e-9
            ]
            answered[self.fold == k] = (is_given & (score <= max(thresholds, default=-1) + 1e-9))[
                self.fold == k
            ]
        return answered


@pytest.fixture(scope="module")
def advised(tmp_path_factory):
    folder = tmp_path_factory.mktemp("advised")
    samples = write(folder / "s.samples.jsonl", invented())
    done = run("advise", samples, "--json", "--resamples", 400)
    return samples, done


@pytest.mark.slow
def test_each_figure_is_that_of_an_independent_program(advised):
    _, done = advised
    found = json.loads(done.stdout)
    program = Program(invented())
    mean = program.shares.mean(axis=1)
    assert found["n_questions"] == N
    assert found["accuracy"][0] == pytest.approx(program.right.mean())

    entropy = -(mean * np.log(np.where(mean > 0, mean, 1))).sum(axis=1)
    scores = {"vote_share": program.votes, "coe": entropy}
    sure = program.stated.reshape(N, 3, 2).mean(axis=2)
    scores["confidence_vote_share"] = 1 - program.votes_by(equally, confidence=sure).max(axis=1)
    leads = np.isclose(mean, mean.max(axis=1, keepdims=True), atol=1e-9)
    support = (program.shares * leads[:, None]).sum(axis=2) / leads.sum(axis=1)[:, None]
    trust = np.empty((N, 3))
    for k in range(5):
        trust[program.fold == k] = program.weights_by_agreement(program.fold != k)
    scores["trusted_vote_share"] = 1 - (support * trust).sum(axis=1)
    assert found["scores"] == pytest.approx(
        {name: program.auroc(program.right, each) for name, each in scores.items()}
    )

    fits = {"agreement": program.weights_by_agreement, "learned": program.weights_by_labels}
    gains = {
        name: program.right_by(program.votes_by(weigh)) - program.right
        for name, weigh in fits.items()
    }
    assert values_of(found["weight_gains"]) == pytest.approx(
        {name: each.mean() for name, each in gains.items()}
    )

    usual = program.auroc(program.right, program.votes)
    stated = program.auroc(program.right, scores["confidence_vote_share"]) - usual
    assert values_of(found["confidence_gains"]) == pytest.approx({"stated": stated})

    rest = {
        name: np.delete(program.shares, i, axis=1).mean(axis=1) for i, name in enumerate(AGENTS)
    }
    without = {
        name: (program.right_by(support) - program.right).mean() for name, support in rest.items()
    }
    assert values_of(found["without"]) == pytest.approx(without)

    left, chosen, before = [0, 1, 2], [], program.loss(np.full(N, 1 - program.right.mean()))
    for name, nats in found["order"]:
        losses = {i: program.loss(program.predict(support[:, [*chosen, i]])) for i in left}
        best = min(left, key=losses.get)
        assert (name, nats) == (AGENTS[best], pytest.approx(before - losses[best], abs=1e-6))
        left, chosen, before = [i for i in left if i != best], [*chosen, best], losses[best]

    first = program.to_shares(program.said[:, :, :1]).mean(axis=1)
    lost = found["sample_losses"]["1"]
    one = program.right_by(first)
    assert lost["accuracy"]["value"] == pytest.approx(one.mean() - program.right.mean())
    assert lost["auroc"]["value"] == pytest.approx(
        program.auroc(one, 1 - first.max(axis=1)) - usual
    )

    chosen_votes = program.votes_by(
        fits.get(found["weights"], equally),
        confidence=sure if found["score"] == "confidence_vote_share" else 1.0,
    )
    right = program.right_by(chosen_votes)
    uncertainty = scores["coe"] if found["score"] == "coe" else 1 - chosen_votes.max(axis=1)
    is_given = (
        np.isclose(chosen_votes, chosen_votes.max(axis=1, keepdims=True), atol=1e-9).sum(axis=1)
        == 1
    )
    for risk in (0.05, 0.1, 0.2):
        answered = program.coverage(right, np.round(uncertainty, 9), is_given, risk)
        assert found["coverage"][str(risk)][0] == pytest.approx(answered.mean())
        assert found["realised"][str(risk)] == pytest.approx(
            answered @ (1 - right) / answered.sum()
        )

    ranks, counts = np.unique(np.round(-program.votes, 9), return_inverse=True, return_counts=True)[
        1:
    ]
    chance = np.clip((0.2 * N - (np.cumsum(counts) - counts)) / counts, 0, 1)[
        ranks
    ]  # ties are drawn by lot
    assert found["escalated_right"] == pytest.approx(chance @ program.right / (0.2 * N))
    assert found["escalation_gain"][0] == pytest.approx(chance @ (1 - program.right) / N)


@pytest.mark.slow
def test_the_best_agent_alone_is_chosen_on_the_other_folds(advised):
    found = json.loads(advised[1].stdout)
    program = Program(invented())
    each_alone = np.array([program.right_by(program.shares[:, i]) for i in range(3)])
    alone = np.empty(N)
    for k in range(5):
        best = each_alone[:, program.fold != k].mean(axis=1).argmax()
        alone[program.fold == k] = each_alone[best, program.fold == k]
    assert found["best"] == AGENTS[each_alone.mean(axis=1).argmax()]
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
    found = json.loads(advised[1].stdout)
    program = Program(invented())
    generator = np.random.default_rng(0)
    drawn = np.array([np.bincount(generator.integers(N, size=N), minlength=N) for _ in range(4000)])
    from scipy.stats import norm

    rest = {
        name: np.delete(program.shares, i, axis=1).mean(axis=1) for i, name in enumerate(AGENTS)
    }
    changes = {name: program.right_by(support) - program.right for name, support in rest.items()}
    p = {
        name: 2 * norm.sf(abs(each.mean()) / (drawn @ each / N).std())
        for name, each in changes.items()
    }
    order = sorted(p, key=p.get)
    holm = np.maximum.accumulate(
        [min(1, (len(order) - i) * p[name]) for i, name in enumerate(order)]
    )
    for name, adjusted in zip(order, holm, strict=True):
        assert found["without"][name]["p"] == pytest.approx(adjusted, rel=0.5, abs=0.02)
        low, high = np.quantile(drawn @ changes[name] / N, [0.025 / 3, 1 - 0.025 / 3])
        assert found["without"][name]["low"] == pytest.approx(low, abs=0.02)
        assert found["without"][name]["high"] == pytest.approx(high, abs=0.02)


def test_below_fifty_labelled_questions_there_is_no_advice(tmp_path):
    rows = invented(60)
    for each in rows[: 6 * 11]:
        each["references"] = []
    samples = write(tmp_path / "s.samples.jsonl", rows)
    run("advise", samples, "--out", tmp_path / "policy.json", code=1)  # 49 are labelled
    assert not (tmp_path / "policy.json").exists()


def test_answers_that_are_all_right_leave_nothing_to_compare(tmp_path):
    rows = [{**each, "text": "right"} for each in invented(50)]
    done = run("advise", write(tmp_path / "s.samples.jsonl", rows), "--resamples", 20)
    assert "50 labelled questions; the group is right in 100.0% [100.0%, 100.0%]." in done.stdout
    assert (
        "The best agent alone, a, is right in 100.0% [100.0%, 100.0%]: it is as good" in done.stdout
    )
    assert done.stdout.count("\n") == 11
    assert (
        "This bound is empirical, since the same labels chose the score and the weights"
        in done.stdout
    )


def test_a_policy_that_needs_weights_has_them(tmp_path):
    # a is always right; b and c agree with it by turns, and where all differ, equal weights are a lottery
    texts = [("r", "r", "x"), ("r", "x", "r")] * 23 + [("r", "x", "y")] * 14
    rows = [
        row(f"q{number:03}", agent, 0, text, references=["r"])
        for number, own in enumerate(texts)
        for agent, text in zip("abc", own, strict=True)
    ]
    out = tmp_path / "policy.json"
    done = run("advise", write(tmp_path / "s.samples.jsonl", rows), "--resamples", 50, "--out", out)
    assert "Weights: agreement." in done.stdout
    calibration = CalibratedPolicy.load(out).calibration
    assert (calibration.trust_from, max(calibration.trust, key=calibration.trust.get)) == (
        "agreement",
        "a",
    )
    assert calibration.weights is None  # the graph keeps equal ones
