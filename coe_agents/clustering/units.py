"""Owns units behind a number: their symbols, whose capitals may count, and their English names."""

_LETTERS = "pnμmcdkKMGT"
_PREFIX_NAMES = "pico nano micro milli centi deci kilo kilo mega giga tera"
_PREFIXES = {"": ""} | dict(zip(_LETTERS, _PREFIX_NAMES.split(), strict=True))
_TABLE = """
m kcmμndM meter metre m
g kmμnM gram gramme
s mμnpM second sec
l mcdμ liter litre
ML - megaliter megalitre
t kM tonne
h - hour hr
min - minute
pm - pm
am - am
ft - foot feet
in - inch inche
yd - yard
mi - mile
lb - lb
oz - ounce
gal - gallon
ha - hectare
km/h - kph
mi/h - mph
k - k
Pa MkGmp pascal
K mμn kelvin
A mμnpkM ampere amp
V mkμMn volt
W mkMGTμnp watt
Wh kmMGT watthour
J kmMGTμ joule
N kmMGμ newton
Nm kmM newtonmeter newtonmetre
Hz MkGTm hertz
C mμnpk coulomb
F μmnpk farad
Ω kMmμG ohm
S mμn siemens
T mμn tesla
H mμn henry
M mμnp molar
G mk gauss
eV MkGTm electronvolt
bps MkGT bps
Bps MkGT byteps
B MkGTK byte
b MkGT bit
Ah mk amperehour
mol mkμn mole
cal k calorie
dB - decibel
bar mk bar
atm - atmosphere
Bq kMG becquerel
Gy m gray
Sv mμ sievert
acre - acre
day - day
week - week
month - month
year - year
ton - ton
cent - cent
pound - pound
"""
"""A unit a line: its symbol, the prefixes that are in use, and its names in the singular.

A symbol that nobody writes, as "5 mhz", means the first that it may be: so the prefix that is most usual stands first.
"""


_NAMES_OF: dict[str, list[str]] = {}
for _line in _TABLE.strip().splitlines():
    _symbol, _prefixes, *_names = _line.split()
    for _prefix in ("", *_prefixes.strip("-")):
        _NAMES_OF[_prefix + _symbol] = [_PREFIXES[_prefix] + name for name in _names]

_SYMBOL_OF = {symbol.casefold(): symbol for symbol in reversed(_NAMES_OF)}
_SYMBOL_OF |= {symbol: symbol for symbol in _NAMES_OF if symbol.islower()}

CAPITALS: dict[str, str] = {}
"""From each symbol whose lower case is another unit, or none, to its name: "MW" is a megawatt, "mW" is "mw"."""
NAMES: dict[str, str] = {}
"""From each name, and each symbol of several letters, to how the unit is written in a normal form."""
for _symbol, _names in _NAMES_OF.items():
    _normal = _symbol.casefold()
    if _SYMBOL_OF[_normal] != _symbol:
        _normal = CAPITALS[_symbol] = _names[0]
    elif len(_symbol) > 1:
        NAMES[_normal] = _normal
    NAMES |= dict.fromkeys(_names, _normal)
