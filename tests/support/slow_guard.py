"""GUARD for one text in plain Python, in each formulation, with lists of floats and without our code."""

import math
import statistics


def sigmoid(x):
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


def log_sigmoid(x):
    return -math.log1p(math.exp(-x)) if x > -700 else x


class SlowGuard:
    """Choose tokens: call `step` with a step's logits. It appends to `tokens` and to the other lists."""

    def __init__(self, window=7, decay=0.95, aggregation="median", mapping="arctanh", prompt=()):
        self.w, self.decay, self.aggregation, self.mapping = window, decay, aggregation, mapping
        self.prompt = list(prompt)
        self.hs = []
        self.tokens = []
        self.k = []
        self.alpha = []
        self.q = []
        self.glob = []
        self.candidates = {}

    def step(self, logits):
        top = max(logits)
        z = sum(math.exp(x - top) for x in logits)
        p = [math.exp(x - top) / z for x in logits]
        log_p = [x - top - math.log(z) for x in logits]
        self.hs.append(self.entropy(p))
        glob = self.overall()
        k, log_alpha, q = self.adapt(len(self.hs), glob, math.log(len(p)))
        best = sorted(range(len(p)), key=lambda v: (-logits[v], v))[:k]
        self.candidates = self.score(best, log_p, log_alpha)
        token = min(v for v in best if self.candidates[v] == max(self.candidates.values()))
        self.tokens.append(token)
        self.k.append(k)
        self.alpha.append(math.exp(log_alpha))
        self.q.append(q)
        self.glob.append(glob)
        return token

    def entropy(self, p):
        return -sum(x * math.log(x) for x in p if x > 0)

    def overall(self):
        t = len(self.hs)
        glob = sum(self.decay ** (t - i) * self.hs[i - 1] for i in range(1, t + 1))
        return glob / sum(self.decay ** (t - i) for i in range(1, t + 1))

    def score(self, best, log_p, log_alpha):
        return {v: log_p[v] + self.tokens.count(v) * log_alpha for v in best}

    def med(self, values):
        values = sorted(values)
        if self.aggregation == "mean":
            return sum(values) / len(values)
        if self.aggregation == "winsorized":
            last = len(values) - 1
            tenth = 0.1 * last
            i, share = int(tenth), tenth - int(tenth)
            j = min(i + 1, last)
            low = values[i] * (1 - share) + values[j] * share
            high = values[last - i] * (1 - share) + values[last - j] * share
            return sum(min(max(v, low), high) for v in values) / len(values)
        return self.median(values)

    def median(self, values):
        return statistics.median(values)

    def map(self, x, epsilon=1e-6):
        if self.mapping == "log":
            return math.copysign(math.log(1 + abs(x)), x)
        return math.atanh(max(-1 + epsilon, min(1 - epsilon, x)))

    def adapt(self, t, glob, log_v):
        raise NotImplementedError


class SlowEquations(SlowGuard):
    def adapt(self, t, glob, log_v):
        q, k, mixed = self.unrounded(t, glob, log_v)
        return math.floor(k), log_sigmoid(mixed(math.log(math.floor(k)))), q

    def unrounded(self, t, glob, log_v):
        """Return q, the unrounded k, and a function from a size to `eq:kt`'s and `eq:alphat`'s exponent."""
        eps, h = 1e-6, self.hs[-1]
        if t == 1:
            med = prev = glob = h
        else:
            med, prev = self.med(self.hs[:-1][-self.w :]), self.hs[-2]
        q = 1.0 + abs(h - prev) / (prev + eps) + abs(med - glob) / (med + eps)

        def both(size):
            return q * self.map((h - med) / size), q * self.map((med - glob) / size)

        loc, glo = both(log_v)
        lam = abs(loc) / (abs(loc) + abs(glo) + eps)

        def mixed(size):
            loc, glo = both(size)
            return lam * loc + (1 - lam) * glo

        return q, 10 * sigmoid(mixed(log_v)) + 5, mixed


class SlowAlgorithm1(SlowGuard):
    def adapt(self, t, glob, log_v):
        eps, history = 1e-6, [math.nan, *self.hs]  # entropy_history[1], [2], …
        h = history[t]
        if t < self.w:
            delta_global, delta_loc, q = self.map((h - self.med(history[1:])) / log_v), 0.0, 1.0
        else:
            recent = self.med(history[t - self.w + 1 : t + 1])
            before = history[t - 1] if t > 1 else h
            q = 1.0 + abs(h - before) / (before + eps) + abs(recent - glob) / (glob + eps)
            delta_loc = q * self.map((h - recent) / log_v)
            delta_global = q * self.map((recent - glob) / log_v)
        lam = abs(delta_loc) / (abs(delta_loc) + abs(delta_global) + eps)
        k = math.floor(10 * sigmoid(lam * delta_loc + (1 - lam) * delta_global) + 5)
        ln_k = math.log(k)
        return k, log_sigmoid(lam * delta_loc * ln_k + (1 - lam) * delta_global * ln_k), q


class SlowReleased(SlowGuard):
    def entropy(self, p):
        return -sum(x * math.log(x + 1e-5) for x in p)

    def median(self, values):
        return statistics.median_low(values)

    def adapt(self, t, glob, log_v):
        eps, h, warm = 1e-4, self.hs[-1], len(self.hs) >= self.w
        med = self.med(self.hs[t - self.w : t] if warm else self.hs)
        shorter = self.med(self.hs[t - self.w + 1 : t]) - glob if warm else 0.0
        change = min(1.0, abs(h - self.hs[-2]) / (self.hs[-2] + eps)) if t > 1 else 0.0
        differ = min(1.0, abs(shorter) / (shorter + glob + eps)) if warm else 0.0
        q = 0.9 + 0.1 * (1.0 + change + differ)

        def mixed(size):
            loc, glo = q * self.map((h - med) / size, eps), q * self.map(shorter / size, eps)
            lam = abs(loc) / (abs(loc) + abs(glo) + eps)
            return lam * loc + (1 - lam) * glo

        k = 10 * sigmoid(mixed(log_v)) + 5
        return int(k), log_sigmoid(mixed(math.log(k + eps))), q

    def score(self, best, log_p, log_alpha):
        counts = {v: (self.prompt + self.tokens).count(v) for v in best}
        scores = {v: log_p[v] + counts[v] * log_alpha for v in best}
        least = math.log(2.0**-150)  # smaller probabilities round to 0 in float32
        if all(log_p[v] < least or counts[v] * log_alpha < least or scores[v] < least for v in best):
            return {v: log_p[v] for v in best}
        return scores


SLOW = {"equations": SlowEquations, "algorithm1": SlowAlgorithm1, "released": SlowReleased}
