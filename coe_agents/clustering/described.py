"""Owns how a clusterer is described, so that another one can be told from it: by its class and its options."""

from coe_agents.types import JsonObject

_OPTIONS = ("strict", "threshold", "merge_variants")
_NAMES_OF_MODELS = ("model_name", "model")
_DEEPEST = 5


def describe_clusterer(clusterer: object) -> tuple[str, JsonObject | None]:
    """Returns the name of a clusterer, and the options on which its clusters depend, as far as it keeps them.

    Among these is the model, without its owner or folder, which differ from machine to machine. Of a clusterer that is
    given by its name the options are None: not known.

    Example:
        >>> from coe_agents.clustering import NormalizedMatch
        >>> describe_clusterer(NormalizedMatch()), describe_clusterer("NormalizedMatch")
        (('NormalizedMatch', {}), ('NormalizedMatch', None))
    """
    if isinstance(clusterer, str):
        return clusterer, None
    options: JsonObject = {}
    for name in _OPTIONS:
        value = getattr(clusterer, name, options)
        if value is None or isinstance(value, bool | int | float):
            options[name] = value
    model = _model_of(clusterer)
    if model:
        options["model"] = model
    return type(clusterer).__name__, options


def differing_options(now: JsonObject | None, then: JsonObject | None) -> list[str]:
    """Returns a clause on each option of a clusterer that differs, where both are known."""
    clauses = []
    for name, former in (then or {}).items():
        if now is not None and name in now and now[name] != former:
            clauses.append(
                f"{name} {now[name]} of the clusterer differs from {name} {former} at calibration"
            )
    return clauses


def without_place(model: str) -> str:
    """Returns the name of a model without its owner or folder, which differ from machine to machine."""
    return model.rstrip("/").rpartition("/")[2]


def _model_of(clusterer: object) -> str:
    """Returns the name of what compares texts; "" where nothing tells it, as where nothing but a rule does."""
    holder = getattr(clusterer, "embeddings", clusterer)
    for _ in range(_DEEPEST):  # a model may be wrapped, so that its verdicts are kept
        for attribute in _NAMES_OF_MODELS:
            name = getattr(holder, attribute, None)
            if isinstance(name, str):
                return without_place(name)
        holder = getattr(holder, "model", None)
    return ""
