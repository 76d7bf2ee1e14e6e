"""Three organisations hold a strip of each digit, a fourth the labels."""

import torch
from torch import nn

import colonnade as cn

torch.manual_seed(0)
digits = cn.datasets.mnist5k(partition="strips", parties=3)
federation = cn.Federation(
    parties=[
        cn.Party(name, pixels, nn.Sequential(nn.Linear(pixels.shape[1], 32), nn.Tanh()))
        for name, pixels in digits.features.items()
    ],
    label_holder=cn.LabelHolder("registry", digits.labels, top=nn.Linear(3 * 32, 10)),
    train_rows=digits.train,
    test_rows=digits.test,
)
run = federation.train(
    cn.methods.svfl(cn.codecs.Scalar(bits=4, low=-1, high=1)),
    cn.Training(epochs=10),
    cn.Simulate(cn.Network(cn.Channel(bandwidth=20e6, latency=0.010))),
)
print(f"{run.summary['best']:.2f}")
print(run.history.select("epoch", "bytes_up", "bytes_down").tail(2))
