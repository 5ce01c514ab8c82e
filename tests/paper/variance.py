"""The variance of H_glob,t (`eq:hglob`), in units of σ², where covariances are σ² ρ^|i − j|.

Exact on `Fraction`s. With ρ = 0 the entropies are uncorrelated.
"""

from fractions import Fraction


def compute_weights(t, decay):
    """Return w_1 … w_t of `eq:hglob`, oldest first.

    >>> compute_weights(3, Fraction(1, 2))
    [Fraction(1, 7), Fraction(2, 7), Fraction(4, 7)]
    """
    raw = [decay ** (t - i) for i in range(1, t + 1)]
    total = sum(raw)
    return [weight / total for weight in raw]


def compute_variances(steps, decay, correlation=Fraction(0)):
    """Return Var(H_glob,t) / σ² for t = 1 … `steps`.

    With S_t = H_t + λ S_{t−1}: Cov(S_t, H_t) = 1 + λρ Cov(S_{t−1}, H_{t−1}) and
    Var(S_t) = 1 + λ² Var(S_{t−1}) + 2 λρ Cov(S_{t−1}, H_{t−1}); the divisor is (Σ λ^i)².

    >>> compute_variances(3, Fraction(1)) == [1, Fraction(1, 2), Fraction(1, 3)]
    True
    """
    result = []
    variance = covariance = divisor = 0 * decay
    for _ in range(steps):
        variance = 1 + decay**2 * variance + 2 * decay * correlation * covariance
        covariance = 1 + decay * correlation * covariance
        divisor = 1 + decay * divisor
        result.append(variance / divisor**2)
    return result


def compute_limit(decay, correlation=Fraction(0)):
    """Return the limit of `variances`: (1 − λ)/(1 + λ) · (1 + λρ)/(1 − λρ), and 0 for λ = 1.

    >>> compute_limit(Fraction(19, 20))
    Fraction(1, 39)
    """
    return (1 - decay) / (1 + decay) * (1 + decay * correlation) / (1 - decay * correlation)


def compute_distance_limit(decay):
    """Return the limit of E[(H_glob,t − H_t)²] / σ² for uncorrelated entropies: 2λ²/(1 + λ).

    The weight on H_t tends to 1 − λ and Σ w² to (1 − λ)/(1 + λ); (1 − w_t)² + Σ_{i<t} w_i² is then this.

    >>> compute_distance_limit(Fraction(1))
    Fraction(1, 1)
    """
    return 2 * decay**2 / (1 + decay)
