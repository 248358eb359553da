"""Owns what is outside of tinyworld: invented names, and questions that it has no facts about."""

import random

_SYLLABLES = (
    "ka lo mi ra te su no vi da pe bo gu shi zan tor mel rin qua al en is or us an el ber lin par ton ster ford kha "
    "ye ov ich gon dra fe lu mon ia sk wyn har bel cro du ang ely phi thu jo ric mar cos ven zu tal"
).split()
WORDS = (
    "the of and to in a is that for it was on are with as his they be at one have this from or had by hot word but "
    "what some we can out other were all there when up use your how said an each she which do their time if will way "
    "about many then them write would like so these her long make thing see him two has look more day could go come "
    "did number sound no most people my over know water than call first who may down side been now find any new work "
    "part take get place made live where after back little only round man year came show every good me give our under "
    "name very through just form sentence great think say help low line differ turn cause much mean before move right "
    "boy old too same tell does set three want air well also play small end put home read hand port large spell add "
    "even land here must big high such follow act why ask men change went light kind off need house picture try us "
    "again animal point mother world near build self earth father head stand own page should country found answer "
    "school grow study still learn plant cover food sun four between state keep eye never last let thought city tree "
    "cross farm hard start might story saw far sea draw left late run while press close night real life few north "
    "book carry science eat room friend began idea fish mountain stop once base hear horse cut sure watch color face "
    "wood main open seem together next white children begin got walk example ease paper group always music those both "
    "mark often letter until mile river car feet care second enough plain girl usual young ready above ever red list "
    "though feel talk bird soon body dog family direct pose leave song measure door product black short numeral class "
    "wind question happen complete ship area half rock order fire south problem piece told knew pass since top whole "
    "king space heard best hour better true during hundred five remember step early hold west ground interest reach "
    "fast verb sing listen six table travel less morning ten simple several vowel toward war lay against pattern slow "
    "center love person money serve appear road map rain rule govern pull cold notice voice unit power town fine "
    "drive team season league film movie show episode series band album actor singer president minister war treaty "
    "law amendment party game cup final champion coach player record company founder theory cell blood bone heart "
    "disease process energy market bank tax price rate island valley bridge tower church temple castle army battle "
    "empire century character"
).split()
_FRAMES = (
    "who {w} {w} {w} in {w}",
    "when did {w} {w} {w}",
    "where is the {w} {w} of {n}",
    "how many {w} {w} are in {n}",
    "what is the {w} of the {w} in {w}",
    "who plays {n} in the {w} {w}",
    "when was the {w} {w} {w} {w}",
    "who sang the {w} {w}",
    "what does {w} {w} {w} mean",
    "who won the {w} {w} in {d}",
    "where does the {w} {n} come from",
    "which {w} has the most {w} {w} {w}",
    "what year did {n} {w} {w}",
    "who is the {w} of {n} {w}",
    "the {w} {w} of the {n} is the {w}",
    "why do {w} {w} {w}",
    "how long is the {w} {w} {w}",
    "who was the first {w} to {w} the {w}",
    "what are the {w} {w} of {w} and {w}",
    "who wrote the {w} {w} {w} by {n}",
    "{w} {w} {w} {w} {n}",
    "what is the name of the {w} in {n} {n}",
    "is {n} a {w} or a {w}",
    "can you {w} the {w} {w}",
    "{n} {w} {w} when",
)


def invent_name(rng: random.Random) -> str:
    """Returns a made-up name of one or two words."""
    word = "".join(rng.choice(_SYLLABLES) for _ in range(rng.choice((1, 2, 2, 3)))).capitalize()
    if rng.random() < 0.3:
        return f"{word} {''.join(rng.choice(_SYLLABLES) for _ in range(2)).capitalize()}"
    return word


def outside_question(rng: random.Random) -> str:
    """Returns a question that tinyworld has no facts about, in the manner of a search query or of a sentence."""
    frame = rng.choice(_FRAMES)
    while "{" in frame:
        frame = frame.replace("{w}", rng.choice(WORDS), 1)
        frame = frame.replace("{n}", invent_name(rng), 1)
        frame = frame.replace("{d}", str(rng.randint(1800, 2026)), 1)
    frame = frame.lower() if rng.random() < 0.6 else frame[0].upper() + frame[1:]
    return frame + ("?" if rng.random() < 0.5 else "")
