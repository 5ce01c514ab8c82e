"""Replace markup in texts for a judge: special tokens of tokenizers, and our own tags.

A server puts a text into a chat template, and tokenizes the result. A tokenizer finds special tokens by their
spelling, also inside a text. So a text with the spelling of a special token could end a turn, begin another
turn, or call a tool. Therefore, the bracket of a special token is replaced by a look-alike. All other
characters of the text are unchanged.

| what | rule |
|---|---|
| `<|im_start|>`, `<|turn>`, `<turn|>`, DeepSeek's wide bars | any bracket that touches a bar and a word |
| `<end_of_turn>`, `<extra_0>`, `<seed:bos>`, `<function=x>`, `<0x0A>`, `<AI>` | patterns of names |
| `<s>`, `<bos>`, `<think>`, `<image>`, `[INST]`, `[TOOL_CALLS]`, `[gMASK]` | lists of names |
| `<<SYS>>`, `[|user|]`, `>>QUESTION<<`, `]~b]`, `<[begin▁of▁sentence]>`, `◁think▷`, `/no_think` | each |
| `<prompt`, `</method-a`, `<verdict`, `<rationale` | our own tags |

The names come from published configurations; `tests/judge/special_tokens.toml` lists them by model and
source. Not replaced are HTML tags that are tokens of some tokenizers (`<table>`, `<br>`), because these
tokens control nothing, operators (`x |> f`, `p <|> q`), types (`vector<size_t>`) and indices (`a[MAX_SIZE]`).

Some tokenizers normalise a text (NFKC) or remove invisible characters before they search for tokens. So
full-width letters and brackets are read as plain letters and brackets, and zero-width characters are ignored.
Letters of other alphabets are different characters, because no tokenizer reads them as Latin letters.
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
"""A pattern with the names of special tokens in angle brackets, such as `bos` in `<bos>`."""

FAMILIES = (
    r"0x[0-9A-Fa-f]{2}"
    r"|(?!\w*_t>)(?!\w++::)(?=[A-Za-z0-9-]*+[_:=▁])[\w:=▁-]++"
    r"|(?!(?i:u?int|float|complex)\d)[A-Za-z]{3,}+\d++"
    r"|(?!(?:ABBR|BIG|BODY|BR|CENTER|CODE|DD|DIV|DL|DT|EM|FONT|FORM|H[1-6R]|HEAD|HTML|LI|LINK|META|OL|PRE"
    r"|SMALL|SPAN|STRONG|SUB|SUP|TABLE|TBODY|TD|TH|THEAD|TITLE|TR|TT|UL)>)[A-Z][A-Z0-9-]++"
)
"""Patterns for names of special tokens in angle brackets: a byte; words joined by `_`, `:` or `=` (no C types
such as `size_t`); a word with a number (no numeric types); a word in capitals (no HTML tags)."""

SQUARES = (
    r"BOS|EOS|@BOS@|PAD\d*|UNK|CLS|SEP|MASK|gMASK|sMASK|AVAILABLE_TOOLS|TOOL_\w+|ARGS|CALL_ID|IMG(?:_\w+)?"
    r"|PREFIX|MIDDLE|SUFFIX|THINK|MODEL_SETTINGS|AUDIO|BEGIN_AUDIO|TRANSCRIBE|STREAMING_\w+|NEXT_AUDIO_TEXT"
    r"|REPEAT_AUDIO_TEXT|START_REF|END_REF|control_\d+|unused\d+|multimodal|(?i:inst|system_prompt)"
)
"""A pattern with the names of special tokens in square brackets. Square brackets also enclose citations and
indices, so the names are listed one by one."""

ROLES = r"system|user|assistant|human|tool|endofturn"

SHOUTED = (
    r"TITLE|ABSTRACT|INTRODUCTION|SUMMARY|COMMENT|ANSWER|QUESTION|DOMAIN|EMAIL_ADDRESS|IP_ADDRESS\w*|PREFIX"
    r"|MIDDLE|SUFFIX|PASSWORD|KEY|UNUSED_\d+"
)
"""A pattern with the names of Falcon's special tokens, such as `>>QUESTION<<`."""

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
"""Matches each character that is replaced by a look-alike in `HARMLESS`. White space is matched possessively
(`*+`), because backtracking in long white space would take minutes."""

CONTROL_TOKEN = re.compile(
    r"<\|[^\s|<>][^<>|]{0,60}\|?>|<[^\s|<>][^<>|]{0,60}\|>"
    rf"|</?(?!(?i:prompt|method|verdict|rationale))(?:(?i:{WORDS})|{FAMILIES})>|\[/?(?:{SQUARES})\]"
)
"""Matches a whole control token in an answer, except our own tags."""

HARMLESS = {"<": "‹", ">": "›", "[": "⟦", "]": "⟧", "◁": "◃", "/": "∕"}

RULES = f"{MARKUP.pattern} {HARMLESS}"
"""The rules for replacing markup as a text. The prompt's version is a hash that includes this text."""


def neutralise_markup(text: str) -> str:
    """Replace the brackets of special tokens and of our own tags with look-alikes.

    The length of the text is unchanged. Lone surrogates, which cannot be sent as UTF-8, become U+FFFD.

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
"""Matches a character at which markup can begin. This search is ten times faster than one for `MARKUP`."""


def _normalize_character(character: str) -> str:
    """Return a character as a normalising tokenizer reads the character: NFKC, or empty if invisible."""
    if not character.isspace() and is_invisible(character):
        return ""
    return unicodedata.normalize("NFKC", character)
