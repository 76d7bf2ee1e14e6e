"""Full MNIST, a quadrant of each digit with each of four parties; then ten new digits.

Reads the four official idx files from the folder that COLONNADE_DATA names.
"""

from functools import partial

import torch
from torch import nn

import colonnade as cn

torch.manual_seed(0)
digits = cn.datasets.mnist(partition="quadrants")
adam = partial(torch.optim.Adam, lr=3e-3)
federation = cn.Federation(
    [
        cn.Party(name, pixels, nn.Sequential(nn.Linear(196, 128), nn.Sigmoid()), adam)
        for name, pixels in digits.features.items()
    ],
    cn.LabelHolder("registry", digits.labels, nn.Linear(4 * 128, 10), optimiser=adam),
    train_rows=digits.train,
    test_rows=digits.test,
)
run = federation.train(cn.methods.svfl(cn.codecs.Scalar(bits=4)), cn.Training(epochs=2))
print(run)
new = {name: pixels[digits.test[:10]] for name, pixels in digits.features.items()}
print(run.predict(new).classes().tolist(), digits.labels[digits.test[:10]].tolist())
