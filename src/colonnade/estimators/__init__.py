"""Estimators in the manner of scikit-learn, over a federation of tables.

``fit`` takes the organisations' tables instead of one matrix; everything else is as one knows it:
parameters are stored untouched, ``clone`` and ``get_params`` work, fitted attributes end in an
underscore. The run behind a fitted estimator, with its bytes and seconds, is ``run_``.
"""

from colonnade.estimators.classifier import VerticalClassifier
from colonnade.estimators.regressor import VerticalRegressor

__all__ = ["VerticalClassifier", "VerticalRegressor"]
