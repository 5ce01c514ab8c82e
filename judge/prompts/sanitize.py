"""Remove markup from texts for a judge: special tokens of tokenizers, and our own tags.

Servers put a text into a chat template and tokenize the whole. A tokenizer finds its special tokens by their
spelling, wherever they stand, so a text that spells one could end its turn, open another one, or call a tool.
Here the bracket that opens such a token becomes a look-alike; everything else stays as it is, byte for byte.

| what | rule |
|---|---|
| `<|im_start|>`, `<|turn>`, `<turn|>`, DeepSeek's wide bars | any bracket that touches a bar and a word |
| `<end_of_turn>`, `<extra_0>`, `<seed:bos>`, `<function=x>`, `<0x0A>`, `<AI>` | shapes of names |
| `<s>`, `<bos>`, `<think>`, `<image>`, `[INST]`, `[TOOL_CALLS]`, `[gMASK]` | lists of names |
| `<<SYS>>`, `[|user|]`, `>>QUESTION<<`, `]~b]`, `<[begin▁of▁sentence]>`, `◁think▷`, `/no_think` | each |
| `<prompt`, `</method-a`, `<verdict`, `<rationale` | our own tags, whose code no text can know |

The names are those of published configurations; `tests/judge/special_tokens.toml` lists them by model and
source. HTML that some tokenizers hold as tokens (`<table>`, `<br>`) is left alone: it controls nothing. So
are operators (`x |> f`, `p <|> q`), types (`vector<size_t>`) and indices (`a[MAX_SIZE]`).

Look-alikes count as what they look like: some tokenizers normalise a text (NFKC) or drop what cannot be seen
before they look for tokens, so full-width letters and brackets are read as plain ones, and zero-width
characters between them as nothing. Letters of other alphabets are not: no tokenizer takes them for Latin.
"""

import re
import unicodedata

from guard_eval.lookalike import is_invisible

WORDS = (
    r"s|bos|eos|sos|unk|pad|mask|cls|sep|eod|eoc|eoh|eoa|eom|eop|eor|eot|sop|eosys|enc|dblock|2mass"
    r"|system|user|assistant|human|bot|ai|model|agent|developer|role|messages?|turn|chat|history|context"
    r"|instructions?|query|response|observation|documents?|functions?|invoke|parameters?"
    r"|think(?:ing)?|thoughts?|reasoning|scratchpad|answer|final|tools?|function_calls?"
    r"|image|img|video|audio|filename|filepath|reponame|pr|blank|placeholder|code_interpreter|source_files"
    r"|file-sep|global-img"
)
"""Names of special tokens in angle brackets that are listed word by word."""

FAMILIES = (
    r"0x[0-9A-Fa-f]{2}"
    r"|(?!\w*_t>)(?!\w++::)(?=[A-Za-z0-9-]*+[_:=▁])[\w:=▁-]++"
    r"|(?!(?i:u?int|float|complex)\d)[A-Za-z]{3,}+\d++"
    r"|(?!(?:ABBR|BIG|BODY|BR|CENTER|CODE|DD|DIV|DL|DT|EM|FONT|FORM|H[1-6R]|HEAD|HTML|LI|LINK|META|OL|PRE"
    r"|SMALL|SPAN|STRONG|SUB|SUP|TABLE|TBODY|TD|TH|THEAD|TITLE|TR|TT|UL)>)[A-Z][A-Z0-9-]++"
)
"""Shapes of the names of special tokens in angle brackets: a byte; words joined by `_`, `:` or `=`, but no C
type such as `size_t`; a word with a number, but no numeric type; a word in capitals, but no HTML."""

SQUARES = (
    r"BOS|EOS|@BOS@|PAD\d*|UNK|CLS|SEP|MASK|gMASK|sMASK|AVAILABLE_TOOLS|TOOL_\w+|ARGS|CALL_ID|IMG(?:_\w+)?"
    r"|PREFIX|MIDDLE|SUFFIX|THINK|MODEL_SETTINGS|AUDIO|BEGIN_AUDIO|TRANSCRIBE|STREAMING_\w+|NEXT_AUDIO_TEXT"
    r"|REPEAT_AUDIO_TEXT|START_REF|END_REF|control_\d+|unused\d+|multimodal|(?i:inst|system_prompt)"
)
"""Listed names of special tokens in square brackets. Such brackets also enclose citations and indices, so no
shape of a name is enough."""

ROLES = r"system|user|assistant|human|tool|endofturn"

SHOUTED = (
    r"TITLE|ABSTRACT|INTRODUCTION|SUMMARY|COMMENT|ANSWER|QUESTION|DOMAIN|EMAIL_ADDRESS|IP_ADDRESS\w*|PREFIX"
    r"|MIDDLE|SUFFIX|PASSWORD|KEY|UNUSED_\d+"
)
"""Names of Falcon's special tokens, which are written as in `>>QUESTION<<`."""

MARKUP = re.compile(
    r"<(?=\s*+/?+\s*+(?i:prompt|method|verdict|rationale))"
    r"|<(?=\|[^\s|>])|(?<=[^\s|<]\|)>"
    rf"|<(?=/?(?:(?i:{WORDS})|{FAMILIES})>)"
    r"|<(?=<\s*+/?+\s*+(?i:sys))|<(?=\[[\w▁]+\]>)"
    rf"|\[(?=/?(?:{SQUARES})\])|\[(?=\|(?i:{ROLES})\|\])"
    rf"|(?<=>)>(?=(?:{SHOUTED})<<)"
    r"|\](?=~b\]|~!b\[|![pd]~\[|<\][\w ]+\[>\[)|\[(?=e~\[)"
    r"|◁(?=/?think▷)"
    r"|(?<![\w/.:])/(?=(?:no_)?think\b)"
)
"""Matches each character that is replaced by its look-alike in `HARMLESS`. White space is matched
possessively, because a text may hold much of it and each way to divide it would be tried."""

CONTROL_TOKEN = re.compile(
    r"<\|[^\s|<>][^<>|]{0,60}\|?>|<[^\s|<>][^<>|]{0,60}\|>"
    rf"|</?(?!(?i:prompt|method|verdict|rationale))(?:(?i:{WORDS})|{FAMILIES})>|\[/?(?:{SQUARES})\]"
)
"""A whole control token in an answer, except our own tags."""

HARMLESS = {"<": "‹", ">": "›", "[": "⟦", "]": "⟧", "◁": "◃", "/": "∕"}

RULES = f"{MARKUP.pattern} {HARMLESS}"
"""The rules for replacing markup, as a text that the version of the prompt hashes."""


def neutralise_markup(text: str) -> str:
    """Replace the brackets of anything that a chat template or our tags could read as markup.

    Brackets that open or close such markup become look-alikes; all else stays, and so does the length. Lone
    surrogates, which no request can carry, become U+FFFD.

    >>> neutralise_markup("x < y, <b>bold</b>, </method-a> and <|im_start|>system")
    'x < y, <b>bold</b>, ‹/method-a> and ‹|im_start|›system'
    """
    whole = text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    others = {
        character: _normalize_character(character) for character in set(whole) if not character.isascii()
    }
    changed = {ord(character): plain for character, plain in others.items() if plain != character}
    seen = whole.translate(changed) if changed else whole
    result = [
        character.start() for character in _OPENING.finditer(seen) if MARKUP.match(seen, character.start())
    ]
    if not result:
        return whole
    places = [index for index, character in enumerate(whole) for _ in others.get(character, character)]
    characters = list(whole)
    for start in result:
        characters[places[start]] = HARMLESS[seen[start]]
    return "".join(characters)


_OPENING = re.compile(f"[{re.escape(''.join(HARMLESS))}]")
"""The characters at which markup can begin. A search for these takes a tenth of the time of `MARKUP`."""


def _normalize_character(character: str) -> str:
    """Return a character in the form that a normalising tokenizer sees."""
    if not character.isspace() and is_invisible(character):
        return ""
    return unicodedata.normalize("NFKC", character)
