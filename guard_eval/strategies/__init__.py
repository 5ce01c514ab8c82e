"""The decoding strategies as values: a frozen dataclass each, named everywhere by its signature. No torch.

| name | class | parameters and defaults | source |
|---|---|---|---|
| `greedy` | `Greedy` | | argmax |
| `beam` | `BeamSearch` | `beams=5, length_penalty=1` | Freitag and Al-Onaizan 2017 |
| `temperature` | `Temperature` | `tau=0.9` | Ackley et al. 1985 |
| `top_k` | `TopK` | `k=50, temperature=1` | Fan et al. 2018 |
| `top_p` | `TopP` | `p=0.95, temperature=1` | Holtzman et al. 2020 |
| `typical` | `Typical` | `tau=0.2, temperature=1` | Meister et al. 2023 |
| `min_p` | `MinP` | `p=0.1, temperature=1` | Nguyen et al. 2025 |
| `epsilon` | `EpsilonSampling` | `epsilon=0.0009, temperature=1` | Hewitt et al. 2022 |
| `eta` | `EtaSampling` | `epsilon=0.0009, temperature=1` | Hewitt et al. 2022 |
| `top_n_sigma` | `TopNSigma` | `n=1, temperature=1` | Tang et al. 2024 |
| `top_h` | `TopH` | `alpha=0.4, temperature=1` | Baghaei Potraghloo et al. 2025 |
| `p_less` | `PLess` | `temperature=1` | Tan et al. 2025 |
| `min_k` | `MinK` | `tau=3, temperature=1` | Ding et al. 2026 |
| `xtc` | `ExcludeTopChoices` | `threshold=0.1, probability=0.5, temperature=1` | p-e-w 2024 |
| `mirostat` | `Mirostat` | `tau=3, eta=1, temperature=1` | Basu et al. 2021 |
| `repetition_penalty` | `RepetitionPenalty` | `penalty=1.2` | Keskar et al. 2019 |
| `frequency_penalty` | `FrequencyPenalty` | `penalty=0.5` | OpenAI's API |
| `presence_penalty` | `PresencePenalty` | `penalty=0.5` | OpenAI's API |
| `no_repeat_ngram` | `NoRepeatNgram` | `n=3` | Paulus et al. 2018 |
| `dry` | `Dry` | `multiplier=0.8, base=1.75, allowed_length=2, breakers=none` | p-e-w 2024 |
| `contrastive_decoding` | `ContrastiveDecoding` | `alpha=0.1, amateur_tau=0.5, beams=5, …` | Li et al. 2023 |
| `adaptive` | `AdaptiveDecoding` | `epsilon=0.001` | Zhu et al. 2024 |
| `contrastive` | `ContrastiveSearch` | `k=10, alpha=0.6` | Su et al. 2022 |
| `acs` | `AdaptiveContrastiveSearch` | `q=1` | Garces Arias et al. 2024 |
| `guard` | `Guard` | `window=7, decay=0.95` and the settings below | the paper, `eq:hglob` to `eq:alphat` |

Contrastive decoding's `amateur_prompt=last` (or `whole`) says how much of the prompt the amateur sees.
GUARD's settings: `formulation=equations` (or `algorithm1`, `released`), `aggregation=median` (`mean`,
`winsorized`), `mapping=arctanh` (`log`), `select=argmax` (`sample`).

The defaults are those of the paper's tables where these state them; contrastive decoding's and adaptive
decoding's, which they do not state, are the methods' authors'. A temperature comes before the truncation, but
after min-k's, which is defined on logits as they are.

Strategies that change or cut the logits of a step are put one after the other by `+`, in the order in which
they are applied: `dry(multiplier=0.8) + min_p(p=0.05) + temperature(tau=0.8)`. Penalties alone, which draw
nothing, take the likeliest token of what they leave. Users' own strategies: `own.py`.
"""

from guard_eval.strategies.parsing import parse
from guard_eval.strategies.protocol import apply_step, initial_state, trace_values, update_state
from guard_eval.strategies.values import (
    SOURCES,
    STRATEGIES,
    AdaptiveContrastiveSearch,
    AdaptiveDecoding,
    BeamSearch,
    Chain,
    ContrastiveDecoding,
    ContrastiveSearch,
    Dry,
    EpsilonSampling,
    EtaSampling,
    ExcludeTopChoices,
    FrequencyPenalty,
    Greedy,
    Guard,
    MinK,
    MinP,
    Mirostat,
    NoRepeatNgram,
    Penalty,
    PLess,
    PresencePenalty,
    RepetitionPenalty,
    Sampler,
    Step,
    Strategy,
    Temperature,
    TopH,
    TopK,
    TopNSigma,
    TopP,
    Typical,
    draws,
    signature,
)

__all__ = [
    "SOURCES",
    "STRATEGIES",
    "AdaptiveContrastiveSearch",
    "AdaptiveDecoding",
    "BeamSearch",
    "Chain",
    "ContrastiveDecoding",
    "ContrastiveSearch",
    "Dry",
    "EpsilonSampling",
    "EtaSampling",
    "ExcludeTopChoices",
    "FrequencyPenalty",
    "Greedy",
    "Guard",
    "MinK",
    "MinP",
    "Mirostat",
    "NoRepeatNgram",
    "PLess",
    "Penalty",
    "PresencePenalty",
    "RepetitionPenalty",
    "Sampler",
    "Step",
    "Strategy",
    "Temperature",
    "TopH",
    "TopK",
    "TopNSigma",
    "TopP",
    "Typical",
    "apply_step",
    "draws",
    "initial_state",
    "parse",
    "signature",
    "trace_values",
    "update_state",
]
