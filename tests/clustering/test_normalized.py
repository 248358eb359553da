import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coe_agents.clustering import normalized
from coe_agents.clustering.normalized import RULES, normalize_answer
from coe_agents.clustering.units import CAPITALS, NAMES


@pytest.mark.parametrize(
    "group",
    [
        ("The Beatles", "beatles", " BEATLES! ", "«Beatles»", "**Beatles**", "beatles。"),
        ("1,000", "1000", "1000.0", "+1000", "one thousand", "１０００", "١٠٠٠", "1 thousand"),
        ("-5", "−5", "-5.0"),
        ("0", "-0", "0.00", "zero", ".0"),
        ("twenty-one", "twenty one", "21"),
        ("5 million", "5,000,000", "five million", "5.0 million"),
        ("$1,500.00", "$1500", "$ 1500."),
        ("5%", "5 %", "5 percent", "five percent", "**5%**", "5％"),
        ("5 °C", "5°C", "5℃"),
        ("-$5", "$-5", "-$5.00"),
        ("5", "5.", "(5)", "'5'", "**5**", "5;"),
        ("J.K. Rowling", "J. K. Rowling", "JK Rowling"),
        ("U.S.A.", "USA"),
        ("Marks & Spencer", "Marks and Spencer"),
        ("1939–1945", "1939-1945"),
        ("A-", "A minus"),
        ("2^10", "2¹⁰"),
        ("½", "1/2"),
        ("5½", "5 1/2"),
        ("Straße", "STRASSE"),
        ("café", "cafe\N{COMBINING ACUTE ACCENT}"),
        ("soft\N{SOFT HYPHEN}ware", "software"),
        ("-500", "–500", "- 500", "− 500", "minus 500", "Minus five hundred", "moins 500"),
        ("-√3", "−√3", "- √3", r"-\sqrt{3}", r"$-\sqrt3$"),
        ("10⁻³", "10^-3", "10^{-3}"),
        ("O–", "O-", "O−"),
        ("A, C", "a, c", "(A), (C)", "A, C."),
        ("x ≥ 5", "x >= 5", "x>=5", r"$x \geq 5$", r"\(x \ge 5\)", "x ≧ 5"),
        ("x != 7", "x ≠ 7", r"x \neq 7"),
        ("1/2", "½", r"\frac{1}{2}", r"$\dfrac{1}{2}$", r"\boxed{\tfrac12}", "1 / 2"),
        ("-3/4", r"-\frac{3}{4}", r"\frac{-3}{4}", "−¾"),
        ("2 1/3", r"2\frac{1}{3}", "2⅓"),
        ("8000", "8,000", r"8{,}000", r"8\,000", "8 000", "8\N{NARROW NO-BREAK SPACE}000", "8'000"),
        ("12 kg", r"12\text{ kg}", r"12 \mathrm{kg}", "12kg", "12.0 kg"),
        ("45°", r"45^\circ", r"$45^{\circ}$", "45 degrees", r"45\degree"),
        ("3 × 4", r"3 \times 4", "3×4", "3*4"),
        (
            "2500000",
            "2 500 000",
            "2'500'000",
            "25,00,000",
            "2.5e6",
            r"2.5 \times 10^6",
            "2.500.000",
        ),
        ("£7", "7 £", "7£", "£ 7.00"),
        ("-$5", "- $5", "−5 $"),
        ("40%", "40 %", "40 per cent", "40 pct", "40 Prozent", "forty percent", r"40\%"),
        ("x^2", "x²", r"x^{2}", "$x^2$"),
        ("Spider-Man", "Spider Man", "spider–man"),
        ("cats and a dog", "cats and dog", "the cats and the dog"),
        ("Schindler's List", "Schindler’s List", "Schindlers List"),
        ("George W. Bush", "George W Bush"),
        ("7 pm", "7pm", "7 p.m."),
        ("365", "three hundred sixty-five", "Three hundred and sixty-five", "365.0"),
        ("125,412", "one hundred twenty-five thousand four hundred and twelve"),
        ("1001 nights", "one thousand and one nights"),
        ("3 km", "3 kilometers", "three kilometres", "3.0 km"),
        ("9 m^2", "9 m²", "9 square metres"),
        ("80 km/h", "80 kph", "80 kilometres per hour", "80 km per hour", "80km/hour"),
        ("20 min", "20 minutes", "twenty minutes"),
        ("€30", "30 euros", "30 EUR", "30 €"),
        ("5 mM", "5mM", "5.0 mM"),
        ("±4", "± 4", r"\pm 4"),
        ("x∈A", "x ∈ A", r"$x \in A$"),
        ("6 Ω", r"6\,\Omega", r"6~\Omega"),
        ("λ", r"\lambda", r"$\lambda$"),
        ("{3, 4}", r"\{3, 4\}", r"$\{3,\ 4\}$"),
        ("H₂O", "H2O", "H_2O", r"\text{H}_2\text{O}", "$H_2O$"),
        ("x_1", "x₁", "x_{1}"),
        ("Na⁺", "Na+", r"\text{Na}^+"),
        ("Ca²⁺", r"\text{Ca}^{2+}"),
        ("5 GW", "5 gigawatts", "five GW", "5GW."),
        ("8 kΩ", "8 kiloohms"),
        ("2.0 MHz", "2 MHz", "2 megahertz"),
        ("3 kB", "3 KB", "3 kilobytes"),
        ("7 kWh", "7 kilowatt-hours", "7 kilowatt hours"),
        ("300 K", "300K", "300 kelvin"),
        ("9 m/s", "9 metres per second", "9 m per sec", "9 m/sec"),
        ("12 sq ft", "12 square feet", "12 ft²"),
        ("about 5km", "about 5 kilometres"),
        ("EUR 30", "€30", "30 €"),
        ("30 USD", "US$30", "USD 30.00", "30 US dollars"),
        ("first", "1st"),
        ("the twenty-third", "23rd"),
        ("Eighteenth Amendment", "18th Amendment"),
        ("1776", "seventeen seventy-six", "Seventeen Seventy Six"),
        ("100", "a hundred", "one hundred"),
        ("(3, 4)", "(3,4)"),
        ("[0, 500]", "[0,500]", r"\left[0,500\right]"),
        ("B, D", "B,D", "(B), (D)", "B、D"),
        ("第5章", "第 5 章", "第５章"),
        ("15%", "15パーセント", "15퍼센트"),
        ("Honolulu Hawai'i", "Honolulu, Hawaiʻi"),
        ("Roma", "‹Roma›"),
        ("No. 5", "number 5", "no.5", "№ 5", "№5", "Number five", "**No. 5**", "No. 5."),
        ("10 Downing Street is No. 10", "10 Downing Street is number 10"),
        ("Chanel No. 5", "Chanel Number 5", "Chanel №5"),
    ],
)
def test_equal_answers(group):
    assert len({normalize_answer(text) for text in group}) == 1


@pytest.mark.parametrize(
    "group",
    [
        ("C", "C++", "C#"),
        ("A", "A+", "A-", "B"),
        ("+", "-", "*", "/", "?", "!"),
        (
            "5",
            "-5",
            "€5",
            "5/2",
            "52",
            "5.2",
            ">5",
            "$5",
            "-$5",
            "5%",
            "5‰",
            "5°",
            "5°C",
            "5 km",
            "#5",
            "5′",
            "±5",
        ),
        ("1 + 1", "1 1", "11"),
        ("10²", "102", "10"),
        ("5½", "51/2"),
        ("10:30", "1030", "10:3"),
        ("1.2.3", "1.23", "123"),
        ("COVID-19", "COVID 9", "COVID"),
        ("Plan A", "Plan B", "Plan"),
        ("हिन्दी", "हिन्दे", "हनद"),
        ("😀", "😢"),
        ("5", "-5", "–5!", "5!", "!5", "<5", "≤5", "=5", "≠5", "~5"),
        ("500", "- 500", "±500"),
        ("√3", "–√3", "3"),
        ("10⁻³", "10³", "10-3", "103"),
        ("O", "O–", "O+"),
        ("p", "!p", "¬p", "p!"),
        ("x = 5", "x != 5", "x < 5", "x <= 5", "x > 5", "x ≥ 5"),
        ("A, C", "C", "A", "A C", "AC", "A, B, C"),
        ("Hepatitis A, B", "Hepatitis B", "Hepatitis A"),
        ("Vitamin A deficiency", "Vitamin deficiency", "Vitamin B deficiency"),
        ("A. 12", "12", "B. 12"),
        ("A minor", "minor", "A major"),
        ("Type A or B", "Type B", "Type or B"),
        ("Python 3.10", "Python 3.1", "Python 310"),
        ("00501", "501", "0501"),
        ("section 1.10", "section 1.1"),
        ("007", "7"),
        ("[0, 1]", "(0, 1)", "[0, 1)", "0, 1", "01"),
        ("1, 2", "12", "1 2", "1.2", "1,23"),
        ("1,5", "15", "1.5"),
        ("3-2", "32", "3/2", "3+2", "3 2"),
        ("x - y", "x y", "xy", "x + y"),
        ("2 - sin x", "2 sin x"),
        ("km/h", "km h", "kmh"),
        ("B♭ major", "B major", "B♯ major"),
        ("Q♠", "Q♥", "Q"),
        ("✅ Yes", "❌ Yes"),
        ("f'", "f", "f''"),
        ("f(x)", "f x", "fx"),
        ("*args", "**args", "args"),
        ("__init__", "init"),
        (".NET", "NET"),
        ("!important", "important"),
        ("5 MW", "5 mW"),
        ("5 m", "5 cm", "5 M", "5"),
        (r"\frac{1}{2}", r"\frac{2}{1}", "12", "1 2", r"\frac{1}{20}"),
        (r"\frac{1}{2}x", r"\frac{1}{2x}"),
        (r"x^{10}", r"x^10y", "x10"),
        ("$5", "5", "5 €", "US$5"),
        ("1.5e3", "1.53", "1.5e-3"),
        ("28%", "28", "28 percentage points", "0.28"),
        ("100 and 500", "one hundred and five", "one hundred and five hundred thousand"),
        ("2020", "twenty twenty", "two thousand and twenty thousand"),
        ("3 km", "3 m", "3 miles", "3 square km", "3 km/h", "3"),
        ("5 mM", "5 mm", "5 Mm"),
        ("5 nS", "5 ns", "5 mS"),
        ("2 T", "2 t"),
        ("8 Gb", "8 GB"),
        ("101₂", "1012", "101"),
        ("x ∈ A", "x ∉ A"),
        ("p ∧ q", "p ∨ q", "pq"),
        ("5 kB/s", "5 kb/s", "5 MB/s", "5 Mb/s"),
        ("five MW", "five mW", "five"),
        ("2 million MW", "2 million mW"),
        ("5 K", "5 k", "5 °C", "5 kg"),
        ("5 As", "5 A", "5"),
        (r"\Delta", r"\delta", r"\Sigma", r"\sigma"),
        ("ΔT", "δT", "T"),
        ("No one", "No. 1", "one"),
        ("No. One", "number one"),  # "No. One of them is."
        ("No, 5", "No. 5", "5", "#5", "numbers 5", "number 50"),
        ("No.", "number", "5"),
        ("first", "one", "second", "second place"),
        ("one second", "first second", "2nd"),
        ("one third", "third", "1/3"),
        ("nineteen ninety", "109", "nineteen", "ninety"),
        ("US$5", "$5", "€5", "CA$5"),
        ("(1,200)", "(1, 200)", "1200"),
        ("(1,2]", "[1,2]", "[1,2)"),
        ("log_2 8", "log 28", "log_28"),
        ("file_1", "file1"),
        ("K⁺", "K", "K⁻", "K²⁺"),
        ("A only", "only", "B only"),
        ("3 m per s", "3 m", "3 s", "3 per s"),
    ],
)
def test_different_answers(group):
    assert len({normalize_answer(text) for text in group}) == len(group)


@pytest.mark.parametrize("rule", RULES, ids=[rule.apply.__name__ for rule in RULES])
def test_each_rule_merges_what_its_example_says_and_nothing_near(rule):
    one, same = map(normalize_answer, rule.same)
    assert one == same
    one, other = map(normalize_answer, rule.other)
    assert one != other


@pytest.mark.parametrize("rule", RULES, ids=[rule.apply.__name__ for rule in RULES])
def test_no_rule_can_be_left_out(rule, monkeypatch):
    monkeypatch.setattr(normalized, "RULES", [each for each in RULES if each is not rule])
    monkeypatch.setattr(normalized, "_WORDS", re.compile("(?!)"))
    one, same = map(normalize_answer, rule.same)
    assert one != same


def test_an_article_goes_only_before_another_word():
    assert normalize_answer("The Who") == "who"
    assert normalize_answer("a") == "a"
    assert normalize_answer("The") == "the"
    assert normalize_answer("Vitamin A") == "vitamin a"


@given(st.text())
def test_nothing_visible_becomes_nothing(text):
    assert bool(normalize_answer(text)) or not text.strip() or not any(c.isalnum() for c in text)


@given(st.text(alphabet="aAthen tyoeC+#-−.,/:1250$%&'’½²^é中\n*"))
def test_what_is_normal_stays(text):
    once = normalize_answer(text)
    assert normalize_answer(once) == once


def by_the_long_way(text):
    """What the rules alone make of a text."""
    with pytest.MonkeyPatch.context() as patch:
        for short_way in ("_WORDS", "_PLAIN_NUMBER"):
            patch.setattr(normalized, short_way, re.compile("(?!)"))
        return normalize_answer(text)


OF_RULES = [text for rule in RULES for text in (*rule.same, *rule.other)]
WORDS_OF_RULES = sorted({word for text in OF_RULES for word in re.findall("[A-Za-z]+", text)})
PIECES = st.sampled_from(
    [
        *["", *" .AU", " .", "the", "an", "Paris", "PARIS", "one", "Twenty", "hundred", "and"],
        *WORDS_OF_RULES,
    ]
)


@given(st.lists(PIECES, max_size=7).map(" ".join), PIECES)
def test_plain_words_are_what_the_long_way_makes_of_them(text, end):
    assert normalize_answer(text + end) == by_the_long_way(text + end)


@pytest.mark.parametrize("word", WORDS_OF_RULES)
def test_a_word_that_a_rule_reads_is_not_plain(word):
    for text in (word, f"Paris {word}", f"{word} Paris", f"Paris {word} Paris"):
        assert normalize_answer(text) == by_the_long_way(text)


@given(st.from_regex(r"-?[0-9]{1,4}(\.[0-9]{0,3}|/[0-9]{1,3})?", fullmatch=True))
def test_a_plain_number_is_what_the_long_way_makes_of_it(text):
    assert normalize_answer(text) == by_the_long_way(text)


@given(
    sign=st.characters(categories=["Sc", "Sm", "Po", "So", "Sk", "Pd"]),
    number=st.integers(0, 10**6),
)
def test_a_sign_that_unicode_counts_to_a_number_stays_beside_it(sign, number):
    counts = unicodedata.bidirectional(unicodedata.normalize("NFKC", sign)[0]) == "ET"
    forms = {normalize_answer(f"{number}{sign}"), normalize_answer(f"{sign}{number}")}
    assert not counts or str(number) not in forms


SIGNS = st.sampled_from(["-", "–", "−", "- ", "– ", "minus ", "Negative ", "moins ", "минус "])
UNITS = st.sampled_from(["km", "kg", "m/s", "kWh", "ml", "hours", "°C", "%", "lbs", "m^2"])


@given(number=st.integers(1000, 10**9), sign=SIGNS)
def test_a_number_is_one_however_its_thousands_and_its_sign_are_written(number, sign):
    grouped = [f"{number:,}", f"{number:,}".replace(",", " "), f"{number:,}".replace(",", "'")]
    in_latex = [f"{number:,}".replace(",", "{,}"), rf"\boxed{{{number}}}", f"${number}.0$"]
    scaled = [f"{number}e0", rf"{number} \times 10^{{0}}", f"{number}.00"]
    assert {normalize_answer(text) for text in (*grouped, *in_latex, *scaled)} == {str(number)}
    assert normalize_answer(f"{sign}{grouped[0]}") == normalize_answer(f"-{number}") == f"-{number}"


@given(number=st.integers(2, 999), unit=UNITS, other=UNITS)
def test_a_unit_is_kept_however_it_is_set(number, unit, other):
    forms = [f"{number} {unit}", f"{number}{unit}", f"{number}.0 {unit}."]
    plain = normalize_answer(forms[0])
    assert {normalize_answer(form) for form in forms} == {plain}
    assert plain != str(number)
    assert unit == other or plain != normalize_answer(f"{number} {other}")


@given(st.sampled_from(sorted(CAPITALS)), st.integers(2, 999))
def test_the_capitals_of_a_unit_count(symbol, number):
    unit = normalize_answer(f"{number} {symbol}")
    assert unit == normalize_answer(f"{number}.0 {CAPITALS[symbol]}s")
    assert unit != normalize_answer(f"{number} {symbol.lower()}")


@given(st.sampled_from(sorted(NAMES)), st.integers(2, 999))
def test_a_unit_is_one_by_its_symbol_and_its_names(name, number):
    assert normalize_answer(f"{number} {name}") == f"{number} {NAMES[name]}"


@given(top=st.integers(1, 99), bottom=st.integers(2, 99), macro=st.sampled_from(["frac", "dfrac"]))
def test_a_fraction_of_integers_is_read_and_kept(top, bottom, macro):
    fraction = normalize_answer(rf"$\{macro}{{{top}}}{{{bottom}}}$")
    assert fraction == normalize_answer(f"{top}/{bottom}") == f"{top}/{bottom}"
    assert normalize_answer(rf"-\{macro}{{{top}}}{{{bottom}}}") == f"-{fraction}"


@given(
    name=st.sampled_from(["Python", "section", "Windows", "chapitre", "версия", "iOS", "Ubuntu"]),
    number=st.integers(1, 99),
)
def test_the_digits_of_a_name_are_kept(name, number):
    assert normalize_answer(f"{name} {number}.10") != normalize_answer(f"{name} {number}.1")
    assert normalize_answer(f"{number:05}") != normalize_answer(str(number))
    assert normalize_answer(f"{name} {number:03}") != normalize_answer(f"{name} {number}")


@given(letters=st.lists(st.sampled_from("ABCDE"), min_size=2, max_size=4, unique=True))
def test_each_letter_of_a_list_is_kept(letters):
    listed = ", ".join(letters)
    in_brackets = ", ".join(f"({letter})" for letter in letters)
    assert normalize_answer(listed) == normalize_answer(in_brackets) == listed.lower()
    assert normalize_answer(listed) != normalize_answer(", ".join(letters[1:]))
    assert normalize_answer(f"Hepatitis {listed}") != normalize_answer(f"Hepatitis {letters[-1]}")


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", ["9" * 10**6, "a " * 10**5, "(" * 10**6, "$a" * 10**5, "5 " + "hundred " * 10**5]
)
def test_a_megabyte_is_read_in_linear_time(text):
    assert normalize_answer(text)
