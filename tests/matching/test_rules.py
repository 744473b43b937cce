"""What rules find beside words, and what they leave alone."""

from __future__ import annotations

import pytest

from detectsched.detection import Text
from detectsched.errors import InvalidRequest
from detectsched.matching.matcher import Matcher
from detectsched.matching.rules.regex import Regex
from detectsched.wordlist import ListContent, ListOptions, Rule, RuleKind
from tests.matching.judging import LIST, by_rule, hits

FOUND = [
    (RuleKind.ID_CARD, "证号11010519491231002X，", ["11010519491231002X"]),
    (RuleKind.ID_CARD, "11010519491231002x", ["11010519491231002x"]),
    (RuleKind.ID_CARD, "110105 19491231 002X", ["110105 19491231 002X"]),
    (RuleKind.ID_CARD, "１１０１０５１９４９１２３１００２Ｘ", ["１１０１０５１９４９１２３１００２Ｘ"]),
    (RuleKind.ID_CARD, "一一零一零五19491231零零贰X", ["一一零一零五19491231零零贰X"]),
    (RuleKind.BANK_CARD, "2221000000000009", ["2221000000000009"]),
    (RuleKind.BANK_CARD, "卡6212 3456 7890 0000 003.", ["6212 3456 7890 0000 003"]),
    (RuleKind.BANK_CARD, "6212345678900000003", ["6212345678900000003"]),
    (RuleKind.BANK_CARD, "6011-5776-3171-1174", ["6011-5776-3171-1174"]),
    (RuleKind.BANK_CARD, "4111 1111 1111 1111 共 3782 822463 10005", ["4111 1111 1111 1111", "3782 822463 10005"]),
    (RuleKind.BANK_CARD, "金额 100 4111111111111111", ["4111111111111111"]),
    (RuleKind.MOBILE, "加我13800138000", ["13800138000"]),
    (RuleKind.MOBILE, "138-0013-8000 138 0013 8000", ["138-0013-8000", "138 0013 8000"]),
    (RuleKind.MOBILE, "+8613800138000 0086-13800138000", ["+8613800138000", "0086-13800138000"]),
    (RuleKind.MOBILE, "v13800138000", ["13800138000"]),
    (RuleKind.MOBILE, "一三八零零一三八零零零", ["一三八零零一三八零零零"]),
    (RuleKind.MOBILE, "1 3 8 0 0 1 3 8 0 0 0", ["1 3 8 0 0 1 3 8 0 0 0"]),
    (RuleKind.MOBILE, "call +44 7911 123456", ["+44 7911 123456"]),
    (RuleKind.LANDLINE, "010-62511111 (021)61000000", ["010-62511111", "(021)61000000"]),
    (RuleKind.LANDLINE, "0755-26000000转808", ["0755-26000000转808"]),
    (RuleKind.LANDLINE, "400-800-1234", ["400-800-1234"]),
    (RuleKind.LANDLINE, "+44 20 7946 0958", ["+44 20 7946 0958"]),
    (RuleKind.EMAIL, "邮箱a.b+c@mail.example.com。", ["a.b+c@mail.example.com"]),
    (RuleKind.EMAIL, "ａ＠ｂ.ｃｏｍ", ["ａ＠ｂ.ｃｏｍ"]),
    (RuleKind.URL, "看https://a.com/x?y=1#z。", ["https://a.com/x?y=1#z"]),
    (RuleKind.URL, "(see http://a.com/b_(c)).", ["http://a.com/b_(c)"]),
    (RuleKind.URL, "访问www.abc.de或baidu.com看", ["www.abc.de", "baidu.com"]),
    (RuleKind.URL, "HTTP://EXAMPLE.COM:8080/A", ["HTTP://EXAMPLE.COM:8080/A"]),
    (RuleKind.IP, "192.168.0.1:80, 2001:db8::1", ["192.168.0.1", "2001:db8::1"]),
    (RuleKind.IP, "::ffff:10.0.0.1", ["::ffff:10.0.0.1"]),
    (RuleKind.PLATE, "京A·12345 粤BD12345 沪a1234学", ["京A·12345", "粤BD12345", "沪a1234学"]),
    (RuleKind.DIGITS, "9⓿二肆⁹₈③⑸⒋➃㈤㊄", ["9⓿二肆⁹₈③⑸⒋➃㈤㊄"]),
    (RuleKind.DIGITS, "12345678 1234567", ["12345678"]),
    (RuleKind.DIGITS, "20100506,张三出生", ["20100506"]),
]
LEFT_ALONE = [
    (RuleKind.ID_CARD, "110105194912310021"),  # check digit
    (RuleKind.ID_CARD, "11010519490231002X"),  # 31st of February
    (RuleKind.ID_CARD, "110105209812310021"),  # not born yet
    (RuleKind.ID_CARD, "00010519491231002X"),  # no such region
    (RuleKind.ID_CARD, "911010519491231002X"),  # a longer number
    (RuleKind.BANK_CARD, "1234-5678-1234-5678"),  # Luhn, and no issuer
    (RuleKind.BANK_CARD, "4111 1111 1111 1112"),  # Luhn
    (RuleKind.BANK_CARD, "0000 0000 0000 0000"),  # no issuer
    (RuleKind.BANK_CARD, "41 11 11 11 11 11 11 11"),  # not how cards are written
    (RuleKind.BANK_CARD, "a4111111111111111"),  # part of a word
    (RuleKind.BANK_CARD, "622301199001010229"),  # an identity card of Gansu that passes Luhn
    (RuleKind.MOBILE, "12800138000"),  # no such range
    (RuleKind.MOBILE, "138001380001"),  # a longer number
    (RuleKind.MOBILE, "13 80 01 38 00 0"),  # figures in a table
    (RuleKind.LANDLINE, "2024-05-06 12:30"),
    (RuleKind.LANDLINE, "12345678"),
    (RuleKind.EMAIL, "a@b @user a@.com"),
    (RuleKind.URL, "readme.md 3.14 e.g. a@b.com"),
    (RuleKind.IP, "1.2.3.4.5 256.1.1.1 12:30:45 a::b aa:bb:cc:dd:ee:ff"),
    (RuleKind.PLATE, "新server 京A1234 川普川a"),
    (RuleKind.DIGITS, "①2③4 1234-5678"),
    (Rule(RuleKind.DIGITS, skip_dates=True), "20100506,张三出生"),
]


@pytest.mark.parametrize(("kind", "text", "want"), FOUND)
def test_what_is_found(kind: RuleKind, text: str, want: list[str]) -> None:
    """With its separators, in whatever style, and nothing around it."""
    assert by_rule(kind, text) == want


@pytest.mark.parametrize(("rule", "text"), LEFT_ALONE)
def test_what_is_left_alone(rule: Rule | RuleKind, text: str) -> None:
    """Numbers that only look like it."""
    assert by_rule(rule, text) == []


def test_a_hit_of_a_rule_says_which() -> None:
    """By its name, or its kind; a user must be able to tell why."""
    named = Rule(RuleKind.MOBILE, name="phone", category="contact", level=4, tags=("a",))
    (hit,) = hits([], "☎13800138000", rules=(named,))
    assert (hit.word, hit.rule, hit.category, hit.level, hit.tags) == ("phone", "mobile", "contact", 4, ("a",))
    (hit,) = hits([], "☎13800138000", rules=(Rule(RuleKind.MOBILE),))
    assert (hit.word, hit.start, hit.end) == ("mobile", 1, 12)


@pytest.mark.parametrize(
    ("pattern", "text", "want"),
    [
        (r"支付.{1,2}宝", "😀支付  宝 支付宝", ["支付  宝"]),
        (r"(?i)vx[:：]\w+", "加VX：abc", ["VX：abc"]),
        (r"a*", "baab", ["aa"]),
        (r"é.", "cafécafé", ["éc"]),
        (r"b", "\ud800b", ["b"]),
        (r"^.", "\ud800b", ["?"]),
    ],
)
def test_regular_expressions_have_exact_places(pattern: str, text: str, want: list[str]) -> None:
    """Counted in code points; matches of nothing are none."""
    found = [text[start:end] for start, end in Regex(pattern).find(text)]
    assert [one.replace("\ud800", "?") for one in found] == want


@pytest.mark.parametrize("pattern", ["", "(", r"(a)\1", "(?=a)", "a" * 501, "[^a]{900}b" * 40, "\ud800"])
def test_a_regular_expression_that_cannot_be_run_is_refused(pattern: str) -> None:
    """When the list is made, not when a text is judged."""
    with pytest.raises(InvalidRequest) as refused:
        Matcher({LIST: ListContent(options=ListOptions(rules=(Rule(RuleKind.REGEX, pattern=pattern),)))})
    assert refused.value.field == "pattern"


def test_expressions_that_others_choke_on_are_linear() -> None:
    """RE2 does not backtrack."""
    assert by_rule(Rule(RuleKind.REGEX, pattern="(a+)+$"), "a" * 5_000 + "b") == []


@pytest.mark.parametrize("digits", [3, 101])
def test_a_number_of_digits_must_make_sense(digits: int) -> None:
    """Every year would be a hit."""
    with pytest.raises(InvalidRequest):
        Matcher({LIST: ListContent(options=ListOptions(rules=(Rule(RuleKind.DIGITS, min_digits=digits),)))})


def test_hits_of_rules_and_words_stand_in_order() -> None:
    """By place; a rule whose finds come in two passes as well."""
    text = "+44 7911 123456 13800138000 vx"
    assert [hit.word for hit in hits(["vx"], text, rules=(Rule(RuleKind.MOBILE),))] == ["mobile", "mobile", "vx"]


def test_rules_stop_where_there_is_more_than_anybody_reads() -> None:
    """The result says that it was cut."""
    rule = Rule(RuleKind.REGEX, pattern="a")
    judges = Matcher({LIST: ListContent(options=ListOptions(rules=(rule,)))}, max_hits=2)
    result = judges.match(Text("a" * 1000))
    assert (len(result.hits), result.cut) == (2, True)
