"""Six organisations, each with its own description of the same 2000 handwritten digits.

Reads handwritten.mat, or UCI's mfeat files, from the folder that COLONNADE_DATA names.
"""

import torch
from torch import nn

import colonnade as cn

torch.manual_seed(0)
digits = cn.datasets.handwritten().with_validation(0.15)
federation = cn.Federation(
    [
        cn.Party(view, x, nn.Sequential(nn.Linear(x.shape[1], 64), nn.ReLU(), nn.Linear(64, 16)))
        for view, x in digits.features.items()
    ],
    cn.LabelHolder("registry", digits.labels, top=nn.Linear(6 * 16, 10)),
    digits.train,
    digits.test,
    validation_rows=digits.validation,
)
method = cn.methods.svfl(cn.codecs.Scalar(bits=4), cn.codecs.Scalar(bits=8))
training = cn.Training(epochs=30, batch_size=64, early_stopping=cn.EarlyStopping(patience=5))
network = cn.Simulate(cn.Network(cn.Channel(bandwidth=50e6, latency=0.010)))

costs = cn.plan(federation, method, training, network)
print(f"at most {costs.bytes_up / 1e6:.2f} MB up, {costs.bytes_down / 1e6:.2f} MB down")
run = federation.train(method, training, network)
print(run, run.summary["test"]["accuracy"])
