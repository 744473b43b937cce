"""Cases that users of other libraries reported, with the value that is right here.

``source`` is the number in the table in which they were collected, or the project and issue (sensitive-word, ToolGood
and others) that tells of it. ``want`` are (word, what stands there), in the order of hits.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from detectsched.wordlist import AllowRule, Mode, Noise, Repeats, Rule, RuleKind, Word


class Case(NamedTuple):
    """One text, and what is found in it."""

    source: str
    words: list[str | Word]
    text: str
    want: list[tuple[str, str]]
    options: dict[str, Any] = {}  # noqa: RUF012 - nobody writes to it


SUBSTRING: Final = {"mode": Mode.SUBSTRING}
FAMILY: Final = "👨\u200d👩\u200d👦"


def allow(text: str) -> Word:
    """Return an allowed word."""
    return Word(text, allow=True)


def same(*words: str) -> list[tuple[str, str]]:
    """Return hits of words that stand there as the list has them."""
    return [(word, word) for word in words]


CASES: Final = [
    Case("1", ["ass"], "small green grass", []),
    Case("1", ["ass"], "small green grass", same("ass"), SUBSTRING),
    Case("2", ["av"], "I have a nice day", []),
    Case("2", ["av"], "I have a nice day", same("av"), SUBSTRING),
    Case("2", ["av"], "看AV吗", [("av", "AV")]),
    Case("3", ["sb"], "Disburse", []),
    Case("3", ["sb"], "you SB!", [("sb", "SB")]),
    Case("6", ["ass"], "assassin", []),
    Case("7", ["69"], "totaled 695 billion", []),
    Case("7", ["69"], "69", same("69")),
    Case("7", ["69"], "玩69吗", same("69")),
    Case("9", ["fuck"], "fFuck", []),
    Case("9", ["fuck"], "fFuck", [("fuck", "Fuck")], SUBSTRING),
    Case("9", ["fuck"], "fFuck", [], {"repeats": Repeats.OFF}),
    Case("10", ["中国", "zg人", "abc"], "中国完美ａｂｃddb好的", same("中国")),
    Case("10", ["中国", "zg人", "abc"], "中国完美ａｂｃddb好的", [("中国", "中国"), ("abc", "ａｂｃ")], SUBSTRING),
    Case("10", ["中国", "zg人", "abc"], "我是中美国人厉害中国完美ａｂｃ好的", [("中国", "中国"), ("abc", "ａｂｃ")]),
    Case("12", ["黄片", allow("三黄片")], "三黄片", []),
    Case("12", ["黄片", allow("三黄片")], "看黄片", same("黄片")),
    Case("12", ["黄片", allow("三黄片")], "吃三黄片看黄片", same("黄片")),
    Case("14", ["他妈", allow("他妈妈")], "他妈妈来了", []),
    Case("14", ["他妈", allow("他妈妈")], "他妈的", same("他妈")),
    Case("15", ["口交", allow("路口交通")], "路口交通已恢复", []),
    Case("15", ["口交"], "路口交通已恢复", same("口交")),
    Case("16", ["京都大厦", allow("南京都")], "南京都大厦", same("京都大厦")),
    Case("16", ["京都大厦", allow("南京都")], "南京都大厦", [], {"allow": AllowRule.OVERLAP}),
    Case("17", ["hell", allow("hello")], "hello", [], SUBSTRING),
    Case("17", ["hell", allow("hello")], "shell hello", same("hell"), SUBSTRING),
    Case("23", ["下三滥"], "花豹用下三滥招式", same("下三滥")),
    *(Case("24", [word], word, same(word), {"repeats": each})
      for word in ("asshole", "nnd", "嘻嘻哈哈", "fuckk") for each in Repeats),
    Case("24", ["fuck"], "fuckk", [("fuck", "fuckk")], {"repeats": Repeats.ANY}),
    Case("24", ["妈妈"], "妈", [], {"repeats": Repeats.ANY}),
    Case("26", ["傻逼"], "傻1逼", []),
    Case("26", ["傻逼"], "傻1逼", [("傻逼", "傻1逼")], {"noise": (Noise.DIGITS,)}),
    Case("26", ["狗东西"], "狗.东西", [], {"noise": (Noise.DIGITS,)}),
    Case("26", ["狗东西"], "狗.东西", [("狗东西", "狗.东西")]),
    Case("27", ["五星红旗"], "五 星红旗", [("五星红旗", "五 星红旗")]),
    Case("29", ["毛主席"], "毛#!@主$!@席", [("毛主席", "毛#!@主$!@席")]),
    Case("30", ["+V"], "请+v详聊", [("+V", "+v")]),
    Case("30", ["+V"], "+very", []),
    Case("32", ["第二行"], "第一行\r\n第二行\r\n第三行", same("第二行")),
    Case("33", ["fu("], "fu(", same("fu(")),
    Case("33", ["a.c"], "abc a.c", same("a.c")),
    Case("34", ["test"], "测试test123", []),
    Case("34", ["test"], "测试test123", same("test"), SUBSTRING),
    Case("34", ["test"], "测试test好", same("test")),
    Case("35", ["she", "he", "say", "shr", "her"], "yasherhs", same("she", "he", "her"), SUBSTRING),
    Case("35", ["she", "he", "say", "shr", "her"], "yasherhs", []),
    Case("35", ["色情网", "情网", "情", "网站"], "色情网站", same("色情网", "情", "情网", "网站")),
    Case("38", ["\ufeffhello"], "hello", [("\ufeffhello", "hello")]),
    Case("41", ["变态"], "一个变态 吓死我", same("变态")),
    Case("42", ["手机魔卡"], "手机", []),
    Case("43", ["👨", "👦", FAMILY], FAMILY, [("👨", "👨"), (FAMILY, FAMILY), ("👦", "👦")]),
    Case("45", ["🔫"], "送你🔫\ufe0f一把", same("🔫")),
    Case("sensitive-word#14", ["abc", "ab"], "abc ab", same("abc", "ab")),
    Case("sensitive-word#19", ["政府", "国家", "共产", allow("共产党")], "共产党是白名单", []),
    Case("sensitive-word#140", ["弹药"], "a弹药b", same("弹药")),
    Case("harmonious_dictionary#1", ["中文敏感词"], "ddd中文敏感词eee", same("中文敏感词")),
    Case("ToolGood#30", ["248"], "A1002481003吃饭", []),
    Case("ToolGood#30", ["248"], "A1002481003吃饭", same("248"), SUBSTRING),
    Case("ToolGood#57", ["一", "二二", "三三三"], "一,二二,三三三", same("一", "二二", "三三三")),
    Case("ToolGood#57", ["jameson"], "jameson吃饭", same("jameson")),
    Case("ToolGood#74", ["机机歪歪", "机歪"], "机机歪歪", same("机机歪歪", "机歪")),
    # Kinds of our own.
    Case("noise", ["身份证"], "身，份，证", [("身份证", "身，份，证")]),
    Case("noise", ["身份证"], "报上身份，证明清白", []),
    Case("noise", ["口交"], "到路口，交通正常", []),
    Case("noise", ["口交"], "到路口，交通正常", [("口交", "口，交")], {"noise": (Noise.SENTENCE,)}),
    Case("noise", ["枪支"], "枪" + "*" * 4 + "支", [("枪支", "枪****支")]),
    Case("noise", ["枪支"], "枪" + "*" * 5 + "支", []),
    Case("noise", ["枪支"], "枪*支", [], {"max_gap": 0}),
    Case("noise", ["枪支"], "枪\n支", []),
    Case("noise", ["枪支"], "枪\r\n支", [("枪支", "枪\r\n支")], {"across_lines": True}),
    Case("noise", ["枪支"], "枪😀支", [("枪支", "枪😀支")]),
    Case("noise", ["枪支"], "枪x支", [("枪支", "枪x支")], {"noise": (Noise.LETTERS,)}),
    Case("noise", ["ass"], "as sent as so", []),
    Case("noise", ["ass"], "a s s", [("ass", "a s s")]),
    Case("noise", ["av"], "plan a v plan b", []),
    Case("noise", ["fuck"], "fu.ck f*u*c*k", [("fuck", "fu.ck"), ("fuck", "f*u*c*k")]),
    Case("noise", ["fuck"], "xfu.ckx", [], SUBSTRING),
    Case("noise", ["69"], "6.9 6-9 6 9", []),
    Case("noise", ["8964"], "8,964 8.9.6.4", [("8964", "8.9.6.4")]),
    Case("noise", ["a+b"], "a+b ab a-b", same("a+b")),
    Case("noise", ["online casino"], "online-casino online  casino onlinecasino",
         [("online casino", "online-casino"), ("online casino", "online  casino")]),
    Case("repeats", ["fuck"], "fuuuuck", [("fuck", "fuuuuck")]),
    Case("repeats", ["fuck"], "f.uuu.c.kkk", [("fuck", "f.uuu.c.kkk")]),
    Case("repeats", ["god"], "good", []),
    Case("repeats", ["god"], "good", [("god", "good")], {"repeats": Repeats.ANY}),
    Case("repeats", ["他妈的"], "他妈妈的书", []),
    Case("repeats", ["110"], "1110 1100", []),
    Case("repeats", ["傻逼"], "傻傻逼逼", [("傻逼", "傻逼")]),
    Case("repeats", ["傻逼"], "傻傻傻逼逼逼", same("傻逼")),
    Case("repeats", ["傻逼"], "傻傻傻逼 傻逼逼逼", same("傻逼", "傻逼")),
    Case("repeats", ["傻逼货"], "傻逼逼逼货", [("傻逼货", "傻逼逼逼货")]),
    Case("repeats", ["傻逼货"], "傻逼逼逼货", [], {"repeats": Repeats.OFF}),
    Case("folding", ["身份证"], "身份證", [("身份证", "身份證")]),
    Case("folding", ["繁體詞"], "繁体词", [("繁體詞", "繁体词")]),
    *(Case("folding", ["18岁"], text, [("18岁", text)])
      for text in ("①⑧岁", "❶❽岁", "１８岁", "١٨岁", "⒈⒏岁", "⑱岁", "⓲岁")),
    Case("folding", ["fuck"], "Ⓕⓤ🅒🄚", [("fuck", "Ⓕⓤ🅒🄚")]),
    Case("folding", ["五毒"], "㊄毒 ㈤毒", [("五毒", "㊄毒"), ("五毒", "㈤毒")]),
    Case("homoglyphs", ["casino"], "саsinо СΑSΙΝΟ", [("casino", "саsinо")]),
    Case("homoglyphs", ["sex"], "ѕех", [("sex", "ѕех")]),
    Case("homoglyphs", ["sex"], "ѕех", [], {"homoglyphs": False}),
    Case("homoglyphs", ["fuck"], "🇫🇺🇨🇰 ꜰᴜᴄᴋ", [("fuck", "🇫🇺🇨🇰"), ("fuck", "ꜰᴜᴄᴋ")]),
    Case("numerals", ["69"], "玩六九", []),
    Case("numerals", ["69"], "玩六九 陸玖", [("69", "六九"), ("69", "陸玖")], {"numerals": True}),
    Case("confusions", ["click"], "cIick c1ick", [], {"homoglyphs": False}),
    Case("confusions", ["click"], "cIick c1ick", [("click", "cIick"), ("click", "c1ick")], {"confusions": True}),
    Case("confusions", ["100"], "lOO", [("100", "lOO")], {"confusions": True}),
    Case("pinyin", ["刷单"], "shuadan Shua Dan 刷dan shua单 s-h-u-a-d-a-n",
         [("刷单", "shuadan"), ("刷单", "Shua Dan"), ("刷单", "刷dan"), ("刷单", "shua单"), ("刷单", "s-h-u-a-d-a-n")],
         {"pinyin": True}),
    Case("pinyin", ["刷单"], "shuadan", []),
    Case("pinyin", ["他妈"], "batamax", [], {"pinyin": True, "mode": Mode.SUBSTRING}),
    Case("split", ["枪支"], "木仓支", [("枪支", "木仓支")], {"split": True}),
    Case("split", ["枪支"], "木仓支", []),
    Case("word by word", [Word("ass", mode=Mode.SUBSTRING), "sex"], "grass sextet", same("ass")),
    Case("word by word", [Word("ass", mode=Mode.WORD), "sex"], "grass sextet", same("sex"), SUBSTRING),
    Case("allow", ["他妈", allow("他妈妈")], "他*妈*妈来了", []),
    Case("allow", [allow("support@example.com")], "support@example.com me@example.com",
         [("email", "me@example.com")], {"rules": (Rule(RuleKind.EMAIL),)}),
]  # fmt: skip
