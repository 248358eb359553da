from tests.evaluation.calibration.conftest import known_rows, rows  # noqa: F401 (fixtures)
