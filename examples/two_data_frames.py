"""From two data frames to a joint model and its report."""

from sklearn.datasets import load_breast_cancer

import colonnade as cn

patients = load_breast_cancer(as_frame=True).frame
clinic = patients.filter(like="mean").assign(malignant=1 - patients["target"])
laboratory = patients.filter(like="worst")

model = cn.VerticalClassifier(
    aligned=True,  # columns of one frame, so row i is the same patient
    method=cn.methods.svfl(cn.codecs.Scalar(bits=4)),
    driver=cn.Simulate(cn.Network(cn.Channel(bandwidth=20e6, latency=0.010))),
)
model.fit({"clinic": clinic[:400], "laboratory": laboratory[:400]}, "malignant")
print(f"{model.score({'clinic': clinic[400:], 'laboratory': laboratory[400:]}, 'malignant'):.3f}")
print(model.run_)
print(model.report("report.html"))
