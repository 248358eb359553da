"""Owns the checks of arguments: valid arrays are returned ready to compute with; an error says what to do."""

from typing import Any, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
FloatOrArray: TypeAlias = Any
"""A float for one question, a FloatArray for many; a union would make every caller of one question cast."""

SUM_TOLERANCE = 1e-6
"""How far a row of probabilities may be from summing to 1; single precision fits, percentages in two digits do not."""

_ROWS_HINT = 'To turn cluster labels into rows, call "cluster_distributions"'


def plain(values: FloatArray) -> FloatOrArray:
    """Returns a Python float for a 0-dimensional result and the array for any other."""
    return float(values) if values.ndim == 0 else values


def numbers(values: npt.ArrayLike, name: str) -> FloatArray:
    """Returns `values` as an array of doubles; strings, objects, complex numbers and ragged lists are refused."""
    try:
        array = np.asarray(values)
    except ValueError as error:
        message = (
            f'"{name}" must be an array; got rows of different lengths. Pad every row to one length'
        )
        raise ValueError(message) from error
    if array.dtype.kind not in "biuf":
        raise TypeError(f'"{name}" must hold real numbers; got {array.dtype}. Convert it to floats')
    if array.size == 0:
        raise ValueError(
            f'"{name}" must not be empty; got shape {array.shape}. Omit whatever has no responses'
        )
    return array.astype(np.float64, copy=False)


def integers(
    values: npt.ArrayLike, name: str, *, upper: int | None = None, upper_name: str = ""
) -> IntArray:
    """Returns `values` as an array of integers of at least 0, and below `upper` if there is one."""
    numbers(values, name)
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise TypeError(f'"{name}" must hold integers; got {array.dtype}. Number from 0')
    negative = array < 0
    if negative.any():
        raise ValueError(
            f'every value of "{name}" must be at least 0; {place(negative, "position")} holds {array[negative][0]}. '
            "Number from 0, and omit responses without a number"
        )
    if upper is not None:
        beyond = array >= upper
        if beyond.any():
            raise ValueError(
                f'every value of "{name}" must be below "{upper_name}", {upper}; {place(beyond, "position")} holds '
                f'{array[beyond][0]}. Number from 0, or raise "{upper_name}"'
            )
    return array.astype(np.int64, copy=False)


def place(mask: npt.ArrayLike, unit: str) -> str:
    """Names the first True of `mask`, as "row 0", or "row (3, 1)" where there are leading dimensions."""
    index = tuple(map(int, np.argwhere(np.atleast_1d(mask))[0]))
    if len(index) == 1:
        return f"{unit} {index[0]}"
    return f"{unit} {index}"


def common_shape(*shapes: tuple[int, ...]) -> tuple[int, ...] | None:
    """Returns the shape that all of these broadcast to; None if they do not fit together."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        return None


def rows(values: npt.ArrayLike, name: str, *, min_ndim: int) -> FloatArray:
    """Returns `values` as probability rows over the last axis: finite, not negative, each summing to 1.

    A sum within `SUM_TOLERANCE` of 1 passes, and the rounding in it is divided out, so that bounds hold exactly.
    """
    array = numbers(values, name)
    if array.ndim < min_ndim:
        shape = "(..., n_clusters)"
        hint = "its row"
        if min_ndim == 2:
            shape = "(..., n_agents, n_clusters)"
            hint = "[row]"
        raise ValueError(
            f'"{name}" must have shape {shape}; got shape {array.shape}. For one agent, pass {hint}'
        )
    return normalise(array, name, array, hint=_ROWS_HINT)


def weights(values: npt.ArrayLike | None, shape: tuple[int, ...]) -> FloatArray:
    """Returns the agents' weights, uniform for None, for distributions of the given shape."""
    *lead, n_agents, _ = shape
    if values is None:
        return np.full(n_agents, 1.0 / n_agents)
    array = numbers(values, "weights")
    fits = common_shape(array.shape[:-1], tuple(lead)) == tuple(lead)
    if array.shape[-1:] != (n_agents,) or not fits:
        raise ValueError(
            f'"weights" must hold one weight for each of the {n_agents} agents of "distributions"; '
            f"got shape {array.shape}. Omit the weights of agents that gave no responses and renormalise"
        )
    # summed in rising order, so that the order of the agents changes no bit
    return normalise(array, "weights", np.sort(array), hint="Divide them by their sum")


def normalise(array: FloatArray, name: str, terms: FloatArray, *, hint: str) -> FloatArray:
    """Returns `array` with the rounding in the sums of `terms` divided out; a sum that is off by more is refused."""
    if not array.min() >= 0.0:
        _refuse(array, name, terms, hint)
    sums = terms.sum(axis=-1)
    if (sums == 1.0).all():  # mostly
        return array
    if not (np.abs(sums - 1.0) <= SUM_TOLERANCE).all():
        _refuse(array, name, terms, hint)
    return np.asarray(array / sums[..., None])


def _refuse(array: FloatArray, name: str, terms: FloatArray, hint: str) -> NoReturn:
    """Raises the error that fits what is wrong with `array`: not finite, negative, or a sum other than 1."""
    faults = {"be a finite number": ~np.isfinite(array), "be at least 0": array < 0.0}
    for must, wrong in faults.items():
        if not wrong.any():
            continue
        where = "it"
        if array.ndim > 1:
            where = place(wrong.any(axis=-1), "row")
        raise ValueError(
            f'every value of "{name}" must {must}; {where} holds {array[wrong][0]:.9g}. '
            "Pass probabilities, not log-probabilities or scores"
        )
    sums = terms.sum(axis=-1)
    if array.ndim == 1:
        raise ValueError(f'"{name}" must sum to 1; got a sum of {sums:.9g}. {hint}')
    off = np.abs(sums - 1.0) > SUM_TOLERANCE
    raise ValueError(
        f'every row of "{name}" must sum to 1; {place(off, "row")} sums to {sums[off][0]:.9g}. {hint}'
    )


def ground_metric(values: npt.ArrayLike, n_clusters: int) -> FloatArray:
    """Returns a ground metric over the clusters: square, finite, not negative, symmetric, with a zero diagonal."""
    array = numbers(values, "ground_metric")
    if array.shape != (n_clusters, n_clusters):
        raise ValueError(
            f'"ground_metric" must have shape {(n_clusters, n_clusters)}, one row and column per cluster; '
            f"got shape {array.shape}. Pass the distance between every two clusters"
        )
    with np.errstate(invalid="ignore"):  # inf - inf is refused below, as not finite
        skewed = np.abs(array - array.T) > 1e-9
    not_distances = "Pass distances, not similarities"
    on_diagonal = np.eye(n_clusters, dtype=bool)
    faults = (
        (~np.isfinite(array), "hold finite numbers", "Cap distances that are not known"),
        (array < 0.0, "not be negative", not_distances),
        (skewed, "be symmetric", "Pass (matrix + matrix.T) / 2"),
        ((array != 0.0) & on_diagonal, "have a zero diagonal", not_distances),
    )
    for wrong, must, hint in faults:
        if wrong.any():
            raise ValueError(
                f'"ground_metric" must {must}; {place(wrong, "entry")} is {array[wrong][0]:.9g}. {hint}'
            )
    return array
