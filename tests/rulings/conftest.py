from tests.cli.conftest import policy  # noqa: F401 (a fixture)
from tests.evaluation.calibration.conftest import known_rows, rows  # noqa: F401 (fixtures)
