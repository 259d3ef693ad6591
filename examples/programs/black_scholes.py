"""Prices of European options by the formula of Black and Scholes, one for each thread."""

import math

import numpy as np

import cuda_device as device

BLOCK = 256
RATE, VOLATILITY = 0.02, 0.30
TOLERANCE = {"rtol": 1e-4, "atol": 1e-4}  # float32, prices up to 100


@device.func
def normal(x):
    """The cumulative distribution of the normal distribution."""
    return 0.5 * math.erfc(-x * math.sqrt(0.5))


@device.kernel
def black_scholes(price, strike, years, call, put):
    """The prices of an option to buy, and of one to sell."""
    i = device.tid(1)
    if i < len(price):
        s, x, t = price[i], strike[i], years[i]
        root = math.sqrt(t)
        d1 = (math.log(s / x) + (RATE + 0.5 * VOLATILITY * VOLATILITY) * t) / (VOLATILITY * root)
        d2 = d1 - VOLATILITY * root
        discounted = x * math.exp(-RATE * t)
        call[i] = s * normal(d1) - discounted * normal(d2)
        put[i] = discounted * normal(-d2) - s * normal(-d1)


def run(stream, price, strike, years):
    """The prices of both options."""
    inputs = [device.array(a, stream=stream) for a in (price, strike, years)]
    call, put = (device.empty(price.size, price.dtype, stream=stream) for _ in range(2))
    blocks = -(-price.size // BLOCK)
    device.launch(black_scholes, *inputs, call, put, grid=blocks, block=BLOCK, stream=stream)
    return call.numpy(), put.numpy()


def expect(price, strike, years):
    """By SciPy, in double precision."""
    from scipy.special import ndtr

    s, x, t = (a.astype(np.float64) for a in (price, strike, years))
    d1 = (np.log(s / x) + (RATE + 0.5 * VOLATILITY**2) * t) / (VOLATILITY * np.sqrt(t))
    d2 = d1 - VOLATILITY * np.sqrt(t)
    discounted = x * np.exp(-RATE * t)
    return s * ndtr(d1) - discounted * ndtr(d2), discounted * ndtr(-d2) - s * ndtr(-d1)


def cases(random):
    """One option to several blocks."""
    for count in (1, 255, 1000):
        for dtype in (np.float32, np.float64):
            yield tuple(random.uniform(low, high, count).astype(dtype) for low, high in ((5, 30), (1, 100), (0.25, 10)))
