from dlbricks_proportional.predictor import Proportional

from dlbricks_core.testing import PredictorConformance


class TestProportional(PredictorConformance):
    plugin = Proportional
