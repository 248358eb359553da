"""Owns the words by which models introduce an answer, in the languages of the world: data for `answers`.

A label is one of `NOUNS`, alone or with a modifier, before a colon. A language that is missing loses nothing: its
responses stay whole. Any label at all would lose: "Star Wars: A New Hope" is an answer.
"""

NOUNS = (
    r"answer|(?<!\d )ans|guess|conclusion|réponse|reponse|respuesta|antwort|risposta|resposta"
    r"|răspuns(?:ul)?|raspuns|resposte|antwoord|svar(?:et)?|vastaus|vastus|svarið|odpowied[źz]"
    r"|odpov[ěeď]ď?|odgovor|válasz|cevap|cevab[ıi]m?|yan[ıi]t|jawaban|jawapan|sagot|jibu"
    r"|vastauksesi|atsakymas|atbilde|përgjigj(?:a|e)|freagra|ateb|erantzuna?|đáp án"
    r"|câu trả lời|trả lời|ответ|отговор|відповідь|адказ|одговор|απάντηση|απαντηση|תשובה"
    r"|התשובה|الإجابة|الاجابة|الجواب|إجابة|جواب|پاسخ|उत्तर|जवाब|উত্তর|பதில்|సమాధానం|ಉತ್ತರ"
    r"|ഉത്തരം|ઉત્તર|ਜਵਾਬ|คำตอบ(?:คือ)?|ຄຳຕອບ|ចម្លើយ|အဖြေ|პასუხი|պատասխան|cavab|жауап|javob"
    "|答案|答复|答え|解答|回答|正解|正答|正答案|結論|结论|정답|해답|답변|대답"
)
"""Words for "answer"."""

GOOD_BEHIND = (
    "finale?|final[ăa]|correct[aeo]?|corretta|correta|exact[aeo]?|esatta|giusta|juste|definitiv[ao]|certa|đúng"
    "|yang benar|letter|choice|option|الصحيحة|النهائية|הנכונה"
)
"""What may stand between the noun and the colon."""

ABOUT = r"(?:[^\W\d_]{1,6} [^.:\n]{1,80}? )??"
"""What "…" stands for below, which the answer is to: "to the question", "auf die Frage".

Nothing, where the verb follows at once: a second one is of the reason, as in "Die Antwort ist Wien, weil es groß ist".
"""

SENTENCES = {
    "en": (
        "answer|guess|choice|option",
        (
            r"\b(?:the|my) (?:(?:final|correct|short|best|right) ){0,2}(?:answer|guess|choice|option) "
            r"(?:(?:to|for) [^.:\n]{1,80}? )?(?:is|was|would be|should be|must be)\b(?! not\b)"
            r"(?:,? (?:therefore|thus|hence|then|simply|clearly)\b,?)?"
        ),
    ),
    "de": (
        "antwort|option|wahl",
        (
            r"\b(?:(?:die|meine|unsere) (?:[^\W\d_]{2,16}e )?(?:antwort(?:option)?|option|wahl) …(?:ist|lautet|wäre)"
            r"|(?:ist|lautet|wäre) (?:(?:also|daher|somit|demnach) )?(?:die|meine|unsere) (?:[^\W\d_]{2,16}e )?"
            r"antwort)\b"
            r"(?: (?:also|daher|somit|demnach)\b)?"
        ),
    ),
    "fr": (
        "réponse|option|choix",
        (
            r"\b(?:la |ma |notre |l['’]|le )(?:(?:bonne|vraie|meilleure|bon) )?(?:réponse|option|choix) "
            r"(?:[^\W\d_]{4,12} )?…(?:est|serait)\b"
            r"(?: (?:donc|alors|ainsi)\b)?"
        ),
    ),
    "es": (
        "respuesta|opción|alternativa",
        (
            r"\b(?:la|mi|nuestra) (?:mejor )?(?:respuesta|opción|alternativa) (?:[^\W\d_]{4,12} )?…(?:es|sería)\b"
            r"(?: (?:entonces|por (?:lo )?tanto)\b)?"
        ),
    ),
    "pt": (
        "resposta|opção|alternativa",
        (
            r"\b(?:a|minha|nossa) (?:melhor )?(?:resposta|opção|alternativa) (?:[^\W\d_]{4,12} )?…(?:é|seria)\b"
            r"(?: (?:portanto|então)\b)?"
        ),
    ),
    "it": (
        "risposta|opzione|scelta",
        (
            r"\b(?:la |mia |l['’])(?:(?:mia|migliore) )?(?:risposta|opzione|scelta) "
            r"(?:[^\W\d_]{4,12} )?…(?:è|sarebbe)(?!\w)"
            r"(?: (?:quindi|dunque)\b)?"
        ),
    ),
    "ru": (
        "ответ|вариант",
        (
            r"\b(?:ответ(?:ом)?|(?:правильн|верн)[^\W\d_]{2,3} вариант(?:ом)?)"
            r"(?: на [^.:\n]{1,80}?)? (?:[—–-]|есть|это|будет|является)(?= )(?: это\b)?"
        ),
    ),
    "uk": ("відповід", r"\bвідповід(?:ь|дю) (?:[—–-]|це|є|буде)(?= )"),
    "zh": (
        "答案|选|選",
        (
            r"(?:答案|正确的?选项|正確的?選項)(?:应该|應該|应当|应|應|就|可能|便)?(?:是|为|為)"
            r"|(?:^|[，。题題]|答案|故|因此|所以|应|應)(?:该|該)?[选選](?:择|擇|项|項|答案)?(?=[:： ]?[A-J]\b)"
        ),
    ),
    "ja": (
        "答え|答は|正解|正答|回答|解答|選択肢",
        r"(?:答え|答|正解|正答|回答|解答|正しい選択肢)は、?",
    ),
    "ko": ("답", r"(?:정답|해답|답변|대답|답)[은는]"),
    "nl": ("antwoord", r"\bhet (?:[^\W\d_]{2,16}e )?antwoord …(?:is|luidt)\b(?: (?:dus)\b)?"),
    "sv": ("svaret", r"\b(?:det [^\W\d_]{2,16} )?svaret (?:är|er|blir)\b"),
    "pl": ("odpowied", r"\bodpowied(?:ź|zią) (?:to|jest|brzmi)\b"),
    "vi": ("đáp án|câu trả lời", r"\b(?:đáp án|câu trả lời)(?: đúng| chính xác)? là\b"),
    "id": ("jawaban", r"\bjawaban(?:nya)?(?: yang benar| akhir)?(?: adalah)\b"),
    "ar": (
        "الإجابة|الاجابة|الجواب",
        r"(?:الإجابة|الاجابة|الجواب)(?: الصحيحة| الصحيح| النهائية)? (?:هي|هو)\b",
    ),
}
"""By the code of a language: its words for "answer", of which one is needed, and what states it in a sentence."""

ENDINGS = (
    r"(?:(?<=\d)번)?(?:です|でした|(?<![ぁ-ん])だ|\s?だ?と(?:思います|思われます|考えられます)|である|(?:に|と)なります|でしょう"
    r"|입니다|이에요|예요|이다)[.。!！]?\Z|(?<=\d)번[.。]?\Z|(?:(?<=[^\W\d_]{2})|(?<=\*\*))[!！]+\Z"
)
"""What stands behind an answer and is no part of it: a verb, where that is last, and a "!"."""

NEGATED = (
    r"\A(?:not|nicht|kein|pas|не|niet|inte|ikke)\s|(?:では|じゃ)(?:ない|ありません)|아닙니다|아니다"
)
"""A sentence that says what the answer is not."""

REASONS = (
    r"because|since(?! \d)|as(?= )|weil|denn|da (?:er|sie|es|der|die|das)|car (?:il|elle|on|c['’]est|ce|le|la|les)"
    "|parce que|puisque|porque|ya que|puesto que|já que|pois|perché|poiché|потому что|так как|поскольку|тому що"
    r"|ponieważ|omdat|eftersom|fordi|(?:因为|因為|所以|因此|它|这|這)[^\s,，]*"
)
"""What introduces a reason behind a comma, which is no part of the answer."""

YES_AND_NO = (
    "yes|no|true|false|ja|nein|oui|non|sí|si|sim|não|sì|да|нет|так|ні|nee|tak|nie|evet|hayır|是的?|不是|否|对|不对|正确|错误"
    "|はい|いいえ|네|예|아니요|아니오|نعم|لا|हाँ|नहीं|có|không"
)
"""The answers to a question that asks for one of two."""
