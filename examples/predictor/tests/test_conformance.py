from dlbricks_proportional.predictor import Proportional
from dlbricks_testing import PredictorConformance


class TestProportional(PredictorConformance):
    plugin = Proportional
