"""The sentences of which the demo's texts are made. ``{…}`` is filled in from ``FILLERS``."""

from __future__ import annotations

from typing import Final

FILLERS: Final = {
    "name": ("小王", "陈姐", "老周", "Emma", "阿明", "Kevin", "王老师", "Sarah"),
    "place": ("公司楼下", "人民公园", "地铁口", "三号会议室", "图书馆", "学校门口", "东门超市"),
    "city": ("Berlin", "Lisbon", "Shanghai", "Toronto", "Osaka", "Nairobi"),
    "hour": ("8:30", "九点", "十点半", "14:00", "下午三点", "19:15"),
    "number": ("20418", "73305", "11927", "58160", "90274", "36611"),
}

PLAIN: Final = (
    "{name}，明天{hour}在{place}见，别迟到",
    "快递到了，取件码{number}，放在{place}",
    "今天的会议改到{hour}，地点{place}",
    "周末去{place}走走吧，天气不错",
    "{name}说晚饭想吃面条，我去买菜",
    "您的验证码是{number}，五分钟内有效",
    "孩子{hour}放学，麻烦{name}去接一下",
    "订单{number}已发货，预计后天送达",
    "这份作业写得很好，继续努力",
    "空调坏了，已报修，工单{number}",
    "新来的同事叫{name}，坐在靠窗的位置",
    "图书馆{hour}闭馆，请读者提前安排",
    "Meeting moved to {hour}, same room as last week.",
    "The flight to {city} leaves at {hour}, gate 12.",
    "Your parcel {number} will arrive tomorrow before noon.",
    "Thanks {name}, the slides look great.",
    "Can you pick up milk and bread on the way home?",
    "Build {number} is green, ready for review.",
    "How was the concert in {city}? Send me pictures!",
    "{name}, the printer on floor two works again.",
    "{name}，PR {number} 我看过了，LGTM",
    "周五的 deadline 改到下周一，大家知悉",
    "demo 环境在 {place} 演示过了，feedback 不错",
    "OKR 的模板发到群里了，{hour}前填完",
)
"""Nothing to find."""

NEAR_MISSES: Final = (
    "The assassin in that novel hides in the tall grass.",
    "Our class passed the assessment with a massive margin.",
    "She was embarrassed by the brass band.",
    "The confidentiality clause is on page {number}.",
    "We migrated the VXLAN config, ticket {number}.",
    "VX{number} is the order code of the lens.",
    "That online casinos article was about zoning law in {city}.",
    "The customer databases course starts in {city}.",
    "请出示身份证，前台登记",
    "客户的名单由{name}整理",
    "内部会议，机密文件请勿带出",
    "安全的账户需要强密码",
    "发票已开，抬头请核对，单号{number}",
    "刷完单词再休息，返回首页领利是",
    "百货家电，乐享优惠，就在{place}",
)
"""Texts that hold parts of the demo's words, or longer words around them, and must not be hit."""

PLANTED: Final = (
    ("在家就能刷单返利，日结，名额{number}个", ("刷单返利",)),
    ("刷\u200b单\u200b返\u200b利，无需垫付，联系{name}", ("刷单返利",)),
    ("可代开发票，各行业都有，电话尾号{number}", ("代开发票",)),
    ("请立即把余额转入安全账户，配合核查", ("安全账户",)),
    ("信用卡套现，{hour}前到账", ("套现",)),
    ("资料不方便在这发，加ＶＸ：{number}", ("VX",)),
    ("Add my vx: {number}, I will send you the details.", ("VX",)),
    ("网络博彩新平台上线，注册即送彩金，加Ｖｘ：{number}", ("网络博彩", "VX")),
    ("百家乐今晚开台，{hour}准时", ("百家乐",)),
    ("我已经下注了，你跟不跟", ("下注",)),
    ("Try this ONLINE CASINO, code {number}, instant payout.", ("online casino",)),
    ("ｏｎｌｉｎｅ　ｃａｓｉｎｏ 首存翻倍", ("online casino",)),
    ("Please buy a gift card code and text it to {name}.", ("gift card code",)),
    ("这是内部机密，看完就删，{name}别外传", ("内部机密",)),
    ("客户名单打包出售，{number}条", ("客户名单",)),
    ("把你的身份证号发我，{hour}前要", ("身份证号",)),
    ("Confidential: do not forward, draft {number}.", ("confidential",)),
    ("confi\u00addential figures from the customer database, see {city} folder", ("confidential", "customer database")),
    ("有人在{place}附近卖冰毒，已报警", ("冰毒",)),
    ("ＫＥＴＡＭＩＮＥ for sale near {city}", ("ketamine",)),
    ("网上买卖枪支弹药都是违法的", ("枪支", "弹药")),
    ("You are such an ASS, {name}!", ("ass",)),
)
"""Texts with the words to be found in them, in reading order; some are disguised by width, case or invisible marks."""
