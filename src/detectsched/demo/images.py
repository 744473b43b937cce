"""The demo's images: screens such as a fleet of phones would send, some with words that should be found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from detectsched.demo.canvas import Canvas, Format, rgb
from detectsched.demo.phone import (
    BLUE,
    DARK,
    GREEN,
    HEIGHT,
    WIDTH,
    WORK,
    Chat,
    Theme,
    face,
    home_indicator,
    input_bar,
    status_bar,
    title_bar,
)


@dataclass(frozen=True, slots=True)
class Screen:
    """One image: how it is drawn, the file it becomes, and the words of the demo's list that are planted in it."""

    name: str
    format: Format
    draw: Callable[[Format], bytes]
    planted: tuple[str, ...] = ()


def _chat(theme: Theme, clock: str, title: str, note: str = "", scale: float = 1.0) -> tuple[Canvas, Chat]:
    canvas = Canvas(WIDTH, HEIGHT, theme.ground, scale)
    status_bar(canvas, clock, theme.ink)
    title_bar(canvas, title, theme, note)
    input_bar(canvas, theme)
    return canvas, Chat(canvas, theme)


def chat_chinese(image_format: Format) -> bytes:
    """Draw a chat with a stranger; one planted word is cut by a wrapped line."""
    canvas, chat = _chat(GREEN, "15:26", "小李（兼职招聘）")
    chat.time("下午 3:12")
    chat.theirs("你好，看到你在找兼职，我们这边有一个在家就能做的工作")
    chat.mine("你好，具体是做什么的？")
    chat.theirs("很简单，在手机上帮商家刷单返利，一单结一单，当天到账")
    chat.voice(12)
    chat.mine("需要先交钱吗？")
    chat.theirs("不用，第一单我帮你垫。方便的话加我ＶＸ：lm8866，发你资料")
    chat.time("下午 3:24")
    chat.mine("我先想一想，晚点回复你")
    chat.theirs("好的，名额不多哦")
    return canvas.encoded(image_format)


def chat_english(image_format: Format) -> bytes:
    """Draw an English chat with blue bubbles."""
    canvas, chat = _chat(BLUE, "9:41", "Unknown sender", "+1 (555) 010-7788", 1.15)
    chat.time("Today 9:12 AM")
    chat.theirs("Hi Emma, this is Daniel from the travel group. Is this still your number?")
    chat.mine("Yes it is. Have we met?")
    chat.theirs("At the lake house last summer!")
    chat.photo()
    chat.theirs("I wanted to share something. I made $400 this weekend at an online casino, it is so easy.")
    chat.mine("I don't think that is for me")
    chat.theirs("No problem. Could you do me a small favor and send a gift card code? I will pay you back.")
    chat.mine("Sorry, no.")
    return canvas.encoded(image_format)


def chat_mixed(image_format: Format) -> bytes:
    """Draw a group of colleagues who mix Chinese and English."""
    canvas, chat = _chat(WORK, "18:05", "Q3 Launch 项目组", "12 位成员")
    chat.time("今天 17:41")
    chat.theirs("大家好，release note 已经更新到 v2.4 了", 1, "Alice 王")
    chat.theirs("收到，我今晚跑一遍 regression test", 2, "陈工")
    chat.mine("麻烦顺便看下 staging 的日志")
    chat.theirs("这份报价属于内部机密，请不要转发到群外", 3, "Kevin 刘")
    chat.theirs("Agreed. Everything in this folder is confidential.", 4, "Sarah")
    chat.mine("那 customer database 的导出文件也先删掉吧")
    chat.theirs("OK，已经处理", 2, "陈工")
    return canvas.encoded(image_format)


def chat_dark(image_format: Format) -> bytes:
    """Draw a chat in dark mode."""
    canvas, chat = _chat(DARK, "23:48", "夜猫子")
    chat.time("昨天 23:10")
    chat.theirs("最近查得严，你那边还好吗", 6)
    chat.mine("还行，怎么了？")
    chat.theirs("有人托我问冰毒的价格，我没敢接话", 6)
    chat.mine("千万别碰，直接举报")
    chat.time("23:41")
    chat.theirs("刚才又有人在群里卖 Ketamine，我已经截图了", 6)
    chat.mine("发给我，我一起交给平台")
    chat.voice(5, 6)
    chat.mine("收到了，早点睡")
    return canvas.encoded(image_format)


def chat_long(image_format: Format) -> bytes:
    """Draw a long screenshot of a group, as phones stitch them: 1080 pixels wide and several screens high."""
    canvas = Canvas(WIDTH, 2700, GREEN.ground, 1.5)
    status_bar(canvas, "20:17", GREEN.ink)
    title_bar(canvas, "同城二手交流群（486）", GREEN)
    chat = Chat(canvas, GREEN)
    chat.time("上午 9:02")
    chat.theirs("早上好，今天有人出自行车吗？", 0, "阿明")
    chat.theirs("我有一辆山地车，八成新，三百块", 1, "骑行的老周")
    chat.theirs("加入网络博彩平台，新人注册送八十八元", 4, "系统_小助手88")
    chat.theirs("又来发广告的，管理员踢一下", 2, "糖糖")
    chat.photo(1)
    chat.time("中午 12:30")
    chat.mine("请问婴儿床还在吗？")
    chat.theirs("还在的，送床垫，可以今晚来看", 3, "小雨妈妈")
    chat.mine("好的，七点到")
    chat.time("下午 4:55")
    chat.theirs("信用卡套现，秒到账，费率低，需要的私聊", 5, "卡友之家")
    chat.theirs("有没有人要书架？免费送，自己来搬", 2, "糖糖")
    chat.mine("书架多高？")
    chat.time("晚上 8:10")
    chat.theirs("卖枪支模型的那位，请先看群规再发", 7, "群主")
    return canvas.encoded(image_format, height=round(chat.bottom) + 10)


def memo_pale(image_format: Format) -> bytes:
    """Draw a note in pale ink on pale paper."""
    paper, ink, faint = rgb("FBF8EF"), rgb("C2BBA8"), rgb("D3CDBD")
    canvas = Canvas(WIDTH, HEIGHT, paper)
    status_bar(canvas, "11:03", faint)
    canvas.line([(52, 94), (36, 112), (52, 130)], rgb("E0B84C"), 4)
    canvas.text(66, 112, "备忘录", 30, rgb("E0B84C"))
    canvas.text(48, 200, "周三会议要点", 44, ink, bold=True)
    canvas.text(48, 256, "3月18日 11:03", 24, faint)
    points = (
        "一、上周遗留问题，各组逐条说明",
        "二、新版首页周五上线，先灰度一成",
        "三、客户名单不得外发，违者通报",
        "四、服务器扩容，预算待财务确认",
        "五、五月团建，地点投票决定",
        "六、下次例会改到周四下午两点",
        "七、值班表已更新，请各自核对",
        "八、打印机维修，暂用二楼那台",
    )
    for row, point in enumerate(points):
        middle = 342 + row * 84
        canvas.ring(64, middle, 14, faint, 2.5)
        canvas.text(96, middle, point, 32, ink)
        canvas.line([(96, middle + 42), (672, middle + 42)], rgb("F0EBDD"), 1.5)
    for column in range(4):
        canvas.ring(108 + column * 168, HEIGHT - 84, 18, rgb("E0B84C"), 3)
    home_indicator(canvas, faint)
    return canvas.encoded(image_format)


def form_table(image_format: Format) -> bytes:
    """Draw a registration form and the table below it."""
    canvas = Canvas(WIDTH, HEIGHT, rgb("F5F6F8"))
    theme = WORK
    canvas.rectangle(0, 0, WIDTH, 64, theme.bar)
    status_bar(canvas, "10:20", theme.ink)
    title_bar(canvas, "供应商登记表.xlsx", theme)
    fields = (
        ("单位名称", "晨光贸易有限公司"),
        ("联系人", "周敏"),
        ("身份证号", "3101**********0017"),
        ("开户银行", "城市银行城南支行"),
        ("登记日期", "2024-03-18"),
    )
    canvas.rectangle(24, 184, 696, 184 + len(fields) * 88, rgb("FFFFFF"), 12)
    for row, (label, content) in enumerate(fields):
        middle = 228 + row * 88
        canvas.text(52, middle, label, 29, theme.faint)
        canvas.text(232, middle, content, 29, theme.ink)
        if row:
            canvas.line([(52, middle - 44), (668, middle - 44)], theme.rule, 1.5)
    rows = (
        ("序号", "项目", "金额", "备注"),
        ("1", "办公用纸", "320.00", "已付"),
        ("2", "硒鼓两只", "458.00", "已付"),
        ("3", "代开发票", "600.00", "待核实"),
        ("4", "快递费", "96.50", "月结"),
        ("5", "会议茶歇", "270.00", "已付"),
        ("", "合计", "1744.50", ""),
    )
    canvas.text(28, 680, "费用明细（单位：元）", 30, theme.ink, bold=True)
    _table(canvas, 716, (24, 124, 344, 512, 696), rows, theme)
    canvas.rectangle(24, 1330, 696, 1422, rgb("3370FF"), 14)
    canvas.text(WIDTH / 2, 1376, "提交审核", 34, rgb("FFFFFF"), anchor="mm")
    home_indicator(canvas, theme.ink)
    return canvas.encoded(image_format)


def _table(
    canvas: Canvas, top: float, edges: Sequence[float], rows: Sequence[Sequence[str]], theme: Theme, height: float = 76
) -> None:
    """Draw a ruled table; the first row is its head, ``edges`` are those of the columns."""
    left, right, bottom, rule = edges[0], edges[-1], top + len(rows) * height, rgb("B9C4D6")
    canvas.rectangle(left, top, right, bottom, rgb("FFFFFF"))
    canvas.rectangle(left, top, right, top + height, rgb("E3ECFB"))
    for row, cells in enumerate(rows):
        canvas.line([(left, top + row * height), (right, top + row * height)], rule)
        for (begin, end), cell in zip(pairwise(edges), cells, strict=True):
            middle = top + (row + 0.5) * height
            canvas.text((begin + end) / 2, middle, cell, 28, theme.ink, bold=row == 0, anchor="mm")
    canvas.line([(left, bottom), (right, bottom)], rule)
    for edge in edges:
        canvas.line([(edge, top), (edge, bottom)], rule)


def message_list(image_format: Format) -> bytes:
    """Draw the list of received messages, as on the morning after a wave of spam."""
    canvas = Canvas(WIDTH, HEIGHT, rgb("FFFFFF"))
    ink, faint, rule = rgb("1A1A1A"), rgb("8E8E93"), rgb("E8E8EA")
    status_bar(canvas, "7:58", ink)
    canvas.text(36, 128, "短信", 52, ink, bold=True)
    canvas.rectangle(36, 180, 684, 250, rgb("F0F0F2"), 18)
    canvas.ring(72, 212, 11, faint, 3)
    canvas.line([(80, 220), (90, 230)], faint, 3)
    canvas.text(106, 215, "搜索信息", 29, faint)
    rows = (
        ("移动营业厅", "7:40", "您本月套餐剩余流量8.6GB，有效期至月底，请合理使用。"),
        ("1069 0211 88", "7:12", "百家乐高手带你玩，稳赚不赔，回复1了解详情。"),
        ("快递驿站", "昨天", "您的包裹已到三号货架，取件码 6-2-1043，请今日领取。"),
        ("+852 5501 2290", "昨天", "您涉嫌一宗案件，请把存款转入安全账户配合调查。"),
        ("城市银行", "昨天", "您尾号0017的账户收入1,280.00元，余额5,312.46元。"),
        ("170 8834 5510", "周一", "信用卡套现，当面操作，安全可靠，诚信经营。"),
        ("妈妈", "周一", "周末回来吃饭吗？你爸买了新鲜的鱼。"),
    )
    for row, (sender, when, preview) in enumerate(rows):
        top = 284 + row * 164
        face(canvas, 36, top + 16, 88, row, 44)
        canvas.text(150, top + 34, sender, 31, ink, bold=True)
        canvas.text(684, top + 34, when, 24, faint, anchor="rm")
        for number, line in enumerate(canvas.wrap(preview, 27, 520)[:2]):
            canvas.text(150, top + 80 + number * 38, line, 27, faint)
        canvas.line([(150, top + 156), (WIDTH, top + 156)], rule, 1.5)
    home_indicator(canvas, ink)
    return canvas.encoded(image_format)


def lock_screen(image_format: Format) -> bytes:
    """Draw a lock screen with notifications over a picture of dusk."""
    canvas = Canvas(WIDTH, HEIGHT, rgb("1B2A4A"))
    canvas.gradient(0, 900, rgb("1B2A4A"), rgb("8A5A83"))
    canvas.gradient(900, HEIGHT, rgb("8A5A83"), rgb("E39A6F"))
    canvas.polygon(
        [(0, 1560), (0, 1330), (180, 1190), (330, 1320), (520, 1150), (720, 1340), (720, 1560)], rgb("4A3654")
    )
    canvas.polygon([(0, 1560), (0, 1440), (240, 1360), (470, 1460), (720, 1380), (720, 1560)], rgb("2E2440"))
    white, card, ink, faint = rgb("FFFFFF"), rgb("E9E4EC"), rgb("1C1A20"), rgb("6B6672")
    status_bar(canvas, "5G", white, 0.55)
    canvas.text(WIDTH / 2, 240, "21:36", 150, white, anchor="mm")
    canvas.text(WIDTH / 2, 352, "3月18日 星期一", 36, white, anchor="mm")
    notices = (
        ("聊天", "2分钟前", "老张", "今晚球赛你押哪边？我已经下注了", "2AAE67"),
        ("短信", "15分钟前", "未知号码", "出售弹药，量大从优，加VX详谈", "4C8BF5"),
        ("日历", "1小时前", "提醒", "明早九点牙科复诊，带医保卡", "E8604C"),
        ("音乐", "1小时前", "每日推荐", "为你准备了三十首新歌", "B14CE8"),
    )
    for row, (application, when, title, body, shade) in enumerate(notices):
        top = 450 + row * 176
        canvas.rectangle(28, top, 692, top + 158, card, 30)
        canvas.rectangle(52, top + 22, 92, top + 62, rgb(shade), 11)
        canvas.circle(72, top + 42, 9, white)
        canvas.text(106, top + 42, application, 25, faint)
        canvas.text(668, top + 42, when, 22, faint, anchor="rm")
        canvas.text(52, top + 86, title, 28, ink, bold=True)
        canvas.text(52, top + 126, body, 28, ink)
    home_indicator(canvas, white)
    return canvas.encoded(image_format)


def clean_family(image_format: Format) -> bytes:
    """Draw a family's chat: nothing to find."""
    canvas, chat = _chat(GREEN, "12:08", "相亲相爱一家人（5）")
    chat.time("上午 11:20")
    chat.theirs("今天降温了，出门记得添衣服", 5, "妈妈")
    chat.mine("知道啦，已经穿上了")
    chat.photo(3)
    chat.theirs("看看我们今天爬的山，空气真好", 3, "爸爸")
    chat.mine("好漂亮！山顶冷不冷？")
    chat.theirs("不冷，太阳很大，午饭在山下吃了面条", 3, "爸爸")
    chat.theirs("周末一起包饺子吧", 1, "姐姐")
    return canvas.encoded(image_format)


def clean_order(image_format: Format) -> bytes:
    """Draw an order in a shop: nothing to find."""
    theme = WORK
    canvas = Canvas(WIDTH, HEIGHT, rgb("F4F4F4"))
    canvas.gradient(0, 330, rgb("FF7A45"), rgb("F4F4F4"))
    white = rgb("FFFFFF")
    status_bar(canvas, "14:47", white)
    canvas.line([(50, 92), (34, 110), (50, 128)], white, 4)
    canvas.text(72, 110, "订单详情", 34, white, bold=True)
    canvas.rectangle(24, 168, 696, 300, white, 16)
    canvas.text(52, 212, "快递已签收", 34, theme.ink, bold=True)
    canvas.text(52, 262, "感谢您的购买，期待再次光临", 25, theme.faint)
    goods = (
        ("纯棉毛巾 三条装", "米白色", "¥39.90", "F0DCC0"),
        ("不锈钢保温杯", "500毫升 墨绿", "¥69.00", "4F7A65"),
        ("儿童绘本 套装", "全十册", "¥128.00", "E7B3B0"),
    )
    for row, (name, kind, price, shade) in enumerate(goods):
        top = 324 + row * 196
        canvas.rectangle(24, top, 696, top + 180, white, 16)
        canvas.rectangle(48, top + 22, 184, top + 158, rgb(shade), 12)
        canvas.rectangle(86, top + 50, 146, top + 130, white, 10)
        canvas.text(212, top + 48, name, 30, theme.ink)
        canvas.text(212, top + 94, kind, 25, theme.faint)
        canvas.text(212, top + 138, price, 30, rgb("E8541E"), bold=True)
        canvas.text(668, top + 138, "×1", 26, theme.faint, anchor="rm")
    canvas.rectangle(24, 928, 696, 1300, white, 16)
    facts = (
        ("商品总价", "¥236.90"),
        ("运费", "¥0.00"),
        ("优惠", "-¥20.00"),
        ("实付款", "¥216.90"),
        ("支付方式", "银行卡"),
    )
    for row, (label, content) in enumerate(facts):
        canvas.text(52, 976 + row * 68, label, 28, theme.faint)
        canvas.text(668, 976 + row * 68, content, 28, theme.ink, anchor="rm", bold=label == "实付款")
    for left, label in ((258, "申请售后"), (486, "再次购买")):
        canvas.frame(left, 1394, left + 206, 1466, rgb("FF7A45"), 36, 2.5)
        canvas.text(left + 103, 1430, label, 29, rgb("FF7A45"), anchor="mm")
    home_indicator(canvas, theme.ink)
    return canvas.encoded(image_format)


def clean_notes(image_format: Format) -> bytes:
    """Draw English reading notes: full of near misses, nothing to find."""
    canvas = Canvas(WIDTH, HEIGHT, rgb("FFFFFF"), 1.15)
    ink, faint, accent = rgb("1C1C1E"), rgb("8E8E93"), rgb("E0A800")
    status_bar(canvas, "8:15", ink)
    canvas.line([(52, 94), (36, 112), (52, 130)], accent, 4)
    canvas.text(66, 112, "Notes", 31, accent)
    canvas.text(40, 196, "Book club, chapter 4", 44, ink, bold=True)
    canvas.text(40, 250, "March 18, 2024 at 8:15 AM", 24, faint)
    paragraphs = (
        "The assassin hides in the tall grass until the guests leave the house.",
        "A classic scene: the butler passes the glass and says nothing.",
        "Who wrote the letter? My guess is the sister, but the assistant had the key.",
        "Ask the class about the VX2 camera on page 69. Was it there in 1971?",
        "Next meeting: Thursday at seven, bring snacks and the massive atlas.",
    )
    middle = 326.0
    for paragraph in paragraphs:
        canvas.circle(48, middle, 5, ink)
        for line in canvas.wrap(paragraph, 32, 600):
            canvas.text(72, middle, line, 32, ink)
            middle += 48
        middle += 26
    home_indicator(canvas, ink)
    return canvas.encoded(image_format)


SCREENS: Final = (
    Screen("chat-chinese", "PNG", chat_chinese, ("刷单返利", "VX")),
    Screen("chat-english", "JPEG", chat_english, ("online casino", "gift card code")),
    Screen("chat-mixed", "WEBP", chat_mixed, ("内部机密", "confidential", "customer database")),
    Screen("chat-dark", "PNG", chat_dark, ("冰毒", "ketamine")),
    Screen("chat-long", "JPEG", chat_long, ("网络博彩", "套现", "枪支")),
    Screen("memo-pale", "PNG", memo_pale, ("客户名单",)),
    Screen("form-table", "PNG", form_table, ("身份证号", "代开发票")),
    Screen("message-list", "JPEG", message_list, ("百家乐", "安全账户", "套现")),
    Screen("lock-screen", "WEBP", lock_screen, ("下注", "弹药", "VX")),
    Screen("clean-family", "PNG", clean_family),
    Screen("clean-order", "JPEG", clean_order),
    Screen("clean-notes", "WEBP", clean_notes),
)
