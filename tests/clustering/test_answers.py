import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coe_agents.clustering import answers
from coe_agents.clustering.answer_words import NOUNS
from coe_agents.clustering.answers import canonical_answer, parse_choice, strip_reasoning
from coe_agents.clustering.normalized import normalize_answer
from coe_agents.clustering.refusals import answer_kind
from coe_agents.clustering.sentence_ends import sentence_ends


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        # As models wrote them, on the questions of TriviaQA and NQ.
        (" Guess: Strong, cold wind\nProbability: 0.95", "Strong, cold wind"),
        ("assistant\n\nGuess: Ivory\nProbability: 0.8", "Ivory"),
        (
            " Guess: Gilgamesh\nProbability: 0.95\n\n(Note: The Epic of Gilgamesh is old.)",
            "Gilgamesh",
        ),
        ("assistant\n\nThe Great Pyramid of Giza\n0.85", "The Great Pyramid of Giza"),
        ("Al Oerter won in the discus throw. Answer: Discus throw.", "Discus throw"),
        (
            " Answer: Kendo\n\nHere's the thinking:\n1. Japan.\n\nHence, the answer is Kendo.",
            "Kendo",
        ),
        ("Answer: A, B.\n\nExplanation:\n1. Letters.\n8. Final answer: A, B.", "A, B"),
        ("I'm not aware of it, but my guess would be: No new episodes.", "No new episodes"),
        (
            " The Third Man (1949)\nUser: Thank you. Name a style of art.\nAssistant: Ukiyo-e",
            "The Third Man (1949)",
        ),
        (
            '```json\n{\n  "reasoning": "5 * 41 = 205",\n  "answer": "205"\n}\n```</s></s></s>',
            "205",
        ),
        ('{"reasoning": "so \\"x\\" is 59", "answer": 59\n}', "59"),
        ('{"reasoning": "...", "answer": "\\frac{1}{2}"}', r"\frac{1}{2}"),
        ('{"reasoning": "...", "answer": "\\\\frac{1}{2}"}', r"\frac{1}{2}"),
        ('{"reasoning": "so \\boxed{7 = 7}", "answer": "7"}', "7"),
        # As benchmarks ask for them.
        ("#### 1. Read\nWe add.\n#### Conclusion\n#### 1,080 dollars", "1,080 dollars"),
        (r"Thus $x = \boxed{\frac{1}{2}}$, not \boxed{}.", r"\frac{1}{2}"),
        (r"Twice: \boxed{\boxed{5}}", "5"),
        (r"A set: \boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"Cut off: \boxed{5} and \boxed{\frac{1}", "5"),
        ("So the final answer is St. Louis, Mo. It lies on a river.", "St. Louis, Mo"),
        ("The answer to the question is J. K. Rowling.", "J. K. Rowling"),
        # Wordings around the marker.
        ("**Final Answer: Paris**", "Paris"),
        ("Reasoning...\n\n### Answer\n\nParis", "Paris"),
        ("Answer： 巴黎", "巴黎"),
        ("因为如此。\n答案：巴黎。", "巴黎"),
        ("Answer:\n1. red\n2. blue", "1. red\n2. blue"),
        ("Answer: Washington, D.C.", "Washington, D.C."),
        ("Answer: Lyon\nAnswer: Paris\nAnswer:", "Paris"),
        ("Answer: Paris\n\nQuestion: And of Italy?\nAnswer: Rome", "Paris"),
        ("Answer: Boston (Probability: 0.9)", "Boston"),
        # No marker.
        ("  It is Paris. ", "It is Paris."),
        ("The answer is not Paris.", "The answer is not Paris."),
        ("The probability is\n0.5", "The probability is\n0.5"),
        ("", ""),
    ],
)
def test_the_answer_inside_a_response(text, answer):
    assert canonical_answer(text) == answer


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("<think>Lyon?</think>\n\nParis", "Paris"),
        ("The answer is Lyon?</think>Paris", "Paris"),
        ("Paris<think>or was it Lyon", "Paris"),
        ("<think>never closed", ""),
        ("<think>a</think>Paris, <think>b</think>France", "Paris, France"),
        ("<think>a <think> b</think>Paris", "Paris"),
        ("I think <b>Paris</b>", "I think <b>Paris</b>"),
    ],
)
def test_reasoning_is_no_part_of_the_answer(text, spoken):
    assert strip_reasoning(text) == spoken
    assert canonical_answer(text) == spoken


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        # A sentence that explains a letter, a yes, a no or a number is no part of it.
        ("The answer is B. It is the largest.", "B"),
        ("The answer is D. Humans need it.", "D"),
        ("The answer is No. It sank.", "No"),
        ("The answer is (C), since it floats.", "C"),
        ("The answer is **(C) Paris**.", "C"),
        ("The answer is option E.", "E"),
        ("Answer: B. It is the largest.", "B"),
        ("Answer: (B) because it is", "B"),
        ("Answer: yes, it did", "yes"),
        ("Respuesta: B. Es la mayor.", "B"),
        ("Risposta: C. È la più grande.", "C"),
        ("Answer: 5 m. Indeed, it is.", "5 m"),
        ("Answer: Paris. It is the capital.", "Paris"),
        ("Die Antwort ist ja, denn es regnet.", "ja"),
        ("答案是B，因为它最大。", "B"),
        ("答案：（B）", "B"),
        ("Answer: **B.** It is the largest.", "B"),
        (r"\boxed{\text{(C)}}", "C"),
        ("Ответ: B. Это самый большой.", "B"),
        ("La risposta è No. È affondata.", "No"),
        ("<answer>B. It is the largest.</answer>", "B"),
        ("La réponse est Paris, parce que c'est écrit.", "Paris"),
        # A verb of the reason is not that of the answer.
        ("La risposta è Napoli, perché è a sud.", "Napoli"),
        ("Die Antwort ist Köln, weil es am Rhein ist.", "Köln"),
        ("La réponse est D, car elle est la plus grande.", "D"),
        ("La respuesta a la pregunta es Cali, porque es grande.", "Cali"),
        # What looks like it is the answer itself.
        ("La respuesta es J.R.R. Tolkien.", "J.R.R. Tolkien"),
        ("La réponse est Brown v. Board.", "Brown v. Board"),
        ("The answer is **J. R. R. Tolkien**.", "J. R. R. Tolkien"),
        ("The answer is **Dr. No**. It is a film.", "Dr. No"),
        ("So the answer is **Oslo**! Well done.", "Oslo"),
        ("The answer is A*.", "A*"),
        ("The answer is 7! / 2.", "7! / 2"),
        ("The answer is n!(n-1)!.", "n!(n-1)!"),
        ("The answer is 6! ways.", "6! ways"),
        ("The answer is Rome! It is old.", "Rome"),
        ("The answer is Sen. Warren.", "Sen. Warren"),
        ("The answer is Capt. Ahab.", "Capt. Ahab"),
        ("The answer is vol. 3.", "vol. 3"),
        ("The answer is Vol. II. It is old.", "Vol. II"),
        ("The answer is Dr. No. It is a film.", "Dr. No"),
        ("La respuesta es Arq. Pérez. Es famoso.", "Arq. Pérez"),
        ("The answer is J. Edgar Hoover.", "J. Edgar Hoover"),
        ("The answer is E. coli.", "E. coli"),
        ("The answer is vitamin C. It helps.", "vitamin C"),
        ("The answer is A, and C.", "A, and C"),
        ("Answer: yes, no, yes", "yes, no, yes"),
        ("The answer is Hepatitis A, B.", "Hepatitis A, B"),
        ("The answer is A Tale of Two Cities.", "A Tale of Two Cities"),
        ("The answer is No Country for Old Men.", "No Country for Old Men"),
        ("The answer is Yes Minister.", "Yes Minister"),
        ("Answer: A-", "A-"),
        ("Answer: C++", "C++"),
        ("Answer: D-day", "D-day"),
        ("Answer: 1. The Beatles", "1. The Beatles"),
        ("Answers:\nA) Ann\nB) Bo", "A) Ann\nB) Bo"),
        ("Star Wars: A New Hope", "Star Wars: A New Hope"),
        # Labels and sentences of other languages.
        ("Je réfléchis.\nRéponse finale\u202f: Lyon", "Lyon"),
        ("因此，正确答案：巴黎", "巴黎"),
        ("답: 4번", "4"),
        ("정답은 4입니다", "4"),
        ("答えは東京です。", "東京"),
        ("Die richtige Antwort auf die Frage lautet: Bonn. Das steht fest.", "Bonn"),
        ("La respuesta correcta es Madrid.", "Madrid"),
        ("A resposta é Lisboa.", "Lisboa"),
        ("La risposta è Roma.", "Roma"),
        ("Правильный ответ — Тверь. Это город.", "Тверь"),
        ("故选：C。", "C"),
        ("Somit lautet die richtige Antwort D.", "D"),
        ("La opción correcta es la C.", "C"),
        ("A alternativa correta é B.", "B"),
        ("L'option correcte est D.", "D"),
        ("L'opzione corretta è A.", "A"),
        ("Правильный вариант — C.", "C"),
        ("Ответ: Г. Это ясно.", "Г"),
        ("正确选项是A。", "A"),
        ("正しい選択肢はCです。", "C"),
        ("答えは9だと思います。", "9"),
        ("정답: C. 가장 작다.", "C"),
        ("La réponse est Lille, car c'est au nord.", "Lille"),
        ("答案是上海，因为它很大。", "上海"),
        ("Antwort: Bern. Das ist die Hauptstadt.", "Bern"),
        ("Réponse : Nice. C'est au sud.", "Nice"),
        ("答案：上海。它很大。", "上海"),
        ("A resposta é Sim. Choveu.", "Sim"),
        ("Ответ: 6 кг. Это мало.", "6 кг"),
        ("Ответ — А. П. Чехов.", "А. П. Чехов"),
        ("A resposta é D. Pedro II.", "D. Pedro II"),
        ("答案选D。", "D"),
        ("La bonne réponse est la B.", "B"),
        ("A resposta correta é a letra C.", "C"),
        # A sentence that says what the answer is not gives none.
        ("Die Antwort ist nicht Bonn.", "Die Antwort ist nicht Bonn."),
        ("답은 서울이 아닙니다.", "답은 서울이 아닙니다."),
        # Wrappers, and one in another.
        ('<answer>{"final_answer": "Rome"}</answer>', "Rome"),
        ("Rome</answer>", "Rome"),
        ("So <answer>Rome", "Rome"),
        ("{'answer': 'Rome'}", "Rome"),
        ('{"respuesta": "Roma"}', "Roma"),
        ('{"answer": ["Rome"]}', "Rome"),
        ('{"answer": ["Rome", "Oslo"]}', '{"answer": ["Rome", "Oslo"]}'),
        ('{"response": "Rome", "why": "so"}', "Rome"),
        ('{"answer": "Rome", "response": "It is."}', "Rome"),
        ('{"student_answer": "Rome"}', '{"student_answer": "Rome"}'),
        ("<|begin_of_box|>Rome<|end_of_box|>", "Rome"),
        ("[[ ## answer ## ]]\nRome\n\n[[ ## completed ## ]]", "Rome"),
        ("Answer:\n```\nRome\n```", "Rome"),
        ("The answer is as follows:\nRome", "Rome"),
        ('<answer type="final">Rome</answer>', "Rome"),
        ("<final>Rome</final>", "Rome"),
        ("<choice>B</choice>", "B"),
        ('{"option": "B"}', "B"),
        ('{"answers": ["Rome"]}', "Rome"),
        ("<scratchpad>Lyon?</scratchpad>Rome", "Rome"),
    ],
)
def test_the_answer_is_cut_where_it_ends(text, answer):
    assert canonical_answer(text) == answer


EXAMPLES = {
    "tag": "So [ANSWER]Paris[/ANSWER].",
    "field": '{"final_answer": "Paris"}',
    "box": r"So \boxed{Paris}.",
    "hashes": "So\n#### Paris",
    "label": "So.\n**Réponse :** Paris",
    "sentence": "Die Antwort lautet Paris.",
    "Markdown": "```\nParis\n```",
}


@pytest.mark.parametrize("form", answers.FORMS)
def test_each_form_of_the_table_holds_its_answer(form):
    assert next(answers.FORMS[form](EXAMPLES[form])).strip(".\n") == "Paris"
    assert canonical_answer(EXAMPLES[form]) == "Paris"


PLAIN_NOUNS = [noun for noun in NOUNS.split("|") if noun.isalpha()]


@given(
    st.sampled_from(PLAIN_NOUNS),
    st.sampled_from(
        ["{}: {}", "So.\n{} : {}", "**{}:** {}", "{}：{}", "## {}\n{}", "<{0}>{1}</{0}>"]
    ),
    st.sampled_from(["Rome", "巴黎", "5", "-√3", "Sen. Warren", "Vitamin C", "x != 5", "$42$"]),
)
def test_a_label_introduces_the_answer_in_each_language(noun, form, answer):
    assert canonical_answer(form.format(noun.title(), answer)) == answer


@pytest.mark.parametrize(
    "text",
    [
        "[THINK]Lyon?[/THINK]Paris",
        "◁think▷Lyon?◁/think▷Paris",
        "<|START_THINKING|>Lyon?<|END_THINKING|>Paris",
        "analysisLyon?assistantfinalParis",
        "<|channel|>analysis<|message|>Lyon?<|end|><|start|>assistant<|channel|>final<|message|>Paris<|return|>",
    ],
)
def test_models_think_in_several_forms(text):
    assert canonical_answer(text) == "Paris"
    assert canonical_answer(text.rpartition("Paris")[0]) == ""


PIECES = [*'aA*_`{}\\#:.\n "<>()1', "Answer", "\\boxed{", "the answer is "]


@given(st.lists(st.sampled_from(PIECES)).map("".join))
def test_what_holds_no_reasoning_is_never_emptied(text):
    assert bool(canonical_answer(text)) == bool(text.strip())


TAGS = (
    "<think>",
    "</think>",
    "</s>",
    "\\boxed{",
    "{",
    "\\",
    "#### ",
    "#### x\n",
    " ",
    "\n",
    "1,111",
    "a",
)
MARKERS = (
    '"answer": "',
    '\\"answer": "\\"',
    "answer:",
    "Answer: \n",
    "the answer to the answer is ",
    "assistant\n",
)
STARTS = (
    "<answer>",
    '"answer": [',
    "正解は",
    "Die Antwort auf ",
    "The answer is Bd. 5 ",
    "Answer: B, ",
    "'answer': '",
    "Answer: 5 m. Ab ",
)
OTHERS = (*STARTS, "**answer** ", "I don't know. ", "not provided in the ")
MARKED = (
    "Rome</s>",
    r"\fbox{Rome}",
    "#### Rome",
    "Respuesta: Rome",
    "答え：Rome",
    "Rome Probability=0.9",
)


@pytest.mark.parametrize(
    "text", [*MARKED, "Rome [Note that]", "Rome\n0.9", "The ANSWER is Rome", "My guess is Rome"]
)
def test_one_mark_is_enough_to_look_for_an_answer(text):
    assert canonical_answer(text) == "Rome"


@pytest.mark.slow
@pytest.mark.parametrize("fragment", [*TAGS, *MARKERS, *OTHERS])
@pytest.mark.parametrize(
    "function", [canonical_answer, answer_kind, normalize_answer, sentence_ends]
)
def test_a_runaway_response_takes_linear_time(function, fragment):
    few, many = (
        seconds(function, fragment * (n_chars // len(fragment)) + "x")
        for n_chars in (5_000, 20_000)
    )
    assert many < 8 * max(few, 0.002)  # four times the text: 4 if linear, 16 if quadratic


@pytest.mark.parametrize("fragment", ['{"a":', "<answer>", "Answer: B, "])
def test_a_megabyte_is_searched_at_its_end(fragment):
    text = fragment * (1_000_000 // len(fragment))
    assert canonical_answer(f"Answer: Lyon\n{text}\nAnswer: Rome") == "Rome"


def seconds(function, text):
    taken = []
    for _ in range(3):
        start = time.process_time()
        function(text)
        taken.append(time.process_time() - start)
    return min(taken)


FORMS = re.compile(r'approve\.?|\{\s*"(verdict|decision)"\s*:\s*"approve"\s*\}')


@given(st.text(), st.text())
def test_only_the_word_or_a_json_verdict_is_a_choice(before, after):
    read = parse_choice(f"{before}approve{after}", ("approve", "reject"))
    assert read in (None, "approve")
    if read:
        rest = f"{before}approve{after}".rpartition("</think>")[2].strip(" \t\r\n\f\v").lower()
        assert FORMS.fullmatch(rest)


@pytest.mark.parametrize("choices", [("True", "False"), ("a.b", "c|d"), ("(x", "y)")])
def test_choices_are_taken_literally(choices):
    assert [parse_choice(choice.upper(), choices) for choice in choices] == list(choices)
    assert parse_choice("aXb", choices) is None
