"""Owns the four regimes of Section 4."""

from functools import partial

from coe_agents.checks import number
from coe_agents.types import Regime

_REGIMES: dict[tuple[bool, bool], Regime] = {
    (False, False): "consensus",
    (False, True): "conflict",
    (True, False): "ambiguous",
    (True, True): "unknown",
}


def regime(
    aleatoric: float, epistemic: float, *, aleatoric_threshold: float, epistemic_threshold: float
) -> Regime:
    """Names the quadrant of Section 4, "high" being *above* the threshold; a value on the threshold is low.

    | U_A  | U_E  | regime      | the paper's words                   |
    |------|------|-------------|-------------------------------------|
    | low  | low  | "consensus" | we are very sure                    |
    | low  | high | "conflict"  | models are confident but disagree   |
    | high | low  | "ambiguous" | multiple reasonable answers exist   |
    | high | high | "unknown"   | we do not know                      |

    Choosing thresholds. Both are in nats, the epistemic one of U_E under "kl": no value of another divergence is
    compared with it. Take them from labelled questions of your own: the pair that best separates right answers from
    wrong ones, checked on questions not used for it. Keep them reachable: under "kl"
    U_E never exceeds H(w), which is at most log(n_agents) (two agents: 0.693), and with uniform weights U_A + U_E is at
    most log(n_clusters), so over two clusters thresholds that sum to 0.693 or more make "unknown" impossible. Entropies
    of few responses come in steps (five responses, one deviating: 0.500 nats) and are biased low; put thresholds
    between the steps.

    Args:
        aleatoric: U_A of one question, at least 0.
        epistemic: U_E of the same question, at least 0.
        aleatoric_threshold: The highest U_A that counts as low, at least 0; inf: always low.
        epistemic_threshold: The highest U_E that counts as low, at least 0; inf: always low.

    Raises:
        TypeError: An argument is not a real number.
        ValueError: An argument is NaN, negative, or more than one number.

    Certain agents of opposite answers are in conflict:

        >>> from coe_agents.uncertainty import collaborative_entropy
        >>> split = collaborative_entropy([[1.0, 0.0], [0.0, 1.0]])
        >>> regime(split.aleatoric, split.epistemic, aleatoric_threshold=0.5, epistemic_threshold=0.3)
        'conflict'
    """
    amount = partial(number, least=0, may_be_infinite=True, advice="Pass nats, such as 0.5")
    u_a = amount(aleatoric, '"aleatoric"')
    u_e = amount(epistemic, '"epistemic"')
    most_a = amount(aleatoric_threshold, '"aleatoric_threshold"')
    most_e = amount(epistemic_threshold, '"epistemic_threshold"')
    return _REGIMES[u_a > most_a, u_e > most_e]
