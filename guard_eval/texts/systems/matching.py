"""Match texts to prompts.

The id in a text's record decides, unless the record also has a prompt with other words. Then the words
decide. If a file has neither ids nor prompts, and has one text per prompt, the order decides. Ids alone are
not enough: two files of one data set can have the same ids for prompts that were cut at different places.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter

from guard_eval.records import Generation, Prompt, clean_for_raters, make_content_id
from guard_eval.texts.generation_files import ECHO

SystemTexts = Mapping[tuple[str, int], Generation]
"""A system's texts, by the prompt's id and the number of the text: 1, 2, …."""

NO_TEXT = "no text"


@dataclass(kw_only=True)
class MatchedTexts:
    """The texts of a system with their prompts.

    Attributes:
        texts: The texts, by the prompt's id and the number of the text.
        prompts: The number of prompts with texts, including prompts whose texts are not returned.
        in_place: Whether texts were matched to prompts by the order in the file.
        duplicates: The number of texts that were left out because they repeat another text of the prompt.
        unmatched: Texts for unknown prompts, and texts with the id of a prompt that has other words.
    """

    texts: dict[tuple[str, int], Generation] = field(default_factory=dict)
    prompts: int = 0
    in_place: bool = False
    duplicates: int = 0
    unmatched: list[Generation] = field(default_factory=list)


class PromptIndex:
    """The prompts of a study, to be found by id or by words."""

    def __init__(self, prompts: Iterable[Prompt]) -> None:
        self.prompts = list(prompts)
        self.by_id = {prompt.id: prompt for prompt in self.prompts}

    @cached_property
    def _prompts_by_words(self) -> Mapping[str, list[Prompt]]:
        by_words: dict[str, list[Prompt]] = defaultdict(list)
        for prompt in self.prompts:
            by_words[clean_for_raters(prompt.text)].append(prompt)
        return by_words

    def match_texts(
        self,
        texts: Sequence[Generation],
        *,
        by_order: bool = True,
        prompt_ids: Collection[str] | None = None,
    ) -> MatchedTexts:
        """Match each text to its prompt.

        Args:
            texts: The texts of one system, in the file's order. An unknown id of a prompt is "".
            by_order: Match by order if the file has neither ids nor prompts.
            prompt_ids: The ids of the prompts whose texts are returned. Default: all.
        """
        result = MatchedTexts()
        if by_order and all(text.prompt is None and not text.prompt_id for text in texts):
            result.in_place = len(texts) == len(self.prompts)
        if result.in_place:
            pairs = zip(texts, self.prompts, strict=True)
            texts = [replace(text, prompt_id=prompt.id) for text, prompt in pairs]
        counts: Counter[str] = Counter()
        seen: set[tuple[str, str]] = set()
        # The toolkit's own files number the texts of a prompt, but are in the order of the batches.
        for text in sorted(texts, key=attrgetter("run")):
            owner = self._find_prompt(text, counts)
            if owner is None:
                result.unmatched.append(text)
            if owner is None or NO_TEXT in text.flaws:
                continue
            if (owner.id, text.text) in seen:
                result.duplicates += 1
                continue
            seen.add((owner.id, text.text))
            counts[owner.id] += 1
            if prompt_ids is None or owner.id in prompt_ids:
                result.texts[owner.id, counts[owner.id]] = assign_prompt_to_text(
                    text, owner, counts[owner.id]
                )
        result.prompts = len(counts)
        return result

    def _find_prompt(self, text: Generation, counts: Mapping[str, int]) -> Prompt | None:
        """Return a text's prompt, or None if its prompt is unknown, or has the id of another prompt."""
        owner = self.by_id.get(text.prompt_id)
        if text.prompt is None or (owner is not None and owner.text == text.prompt):
            return owner
        candidates = self._prompts_by_words.get(clean_for_raters(text.prompt), [])
        if owner in candidates:
            return owner
        # If several prompts have the same words, choose the one with the fewest texts.
        return min(candidates, key=lambda prompt: counts.get(prompt.id, 0), default=None)


def assign_prompt_to_text(text: Generation, prompt: Prompt, number: int) -> Generation:
    """Return a text with its prompt and its number among the prompt's texts."""
    flaws = tuple(flaw for flaw in text.flaws if flaw != ECHO)
    if prompt.text and text.text.startswith(prompt.text):
        flaws = (*flaws, ECHO)
    return replace(
        text,
        id=make_content_id("text", prompt.id, prompt.text, text.text),
        prompt_id=prompt.id,
        dataset=prompt.dataset,
        prompt=prompt.text,
        reference=prompt.reference,
        run=number,
        flaws=flaws,
    )
