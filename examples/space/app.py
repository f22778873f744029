"""The page of docsplit_hf as a Space: the one that docsplit demo shows."""

import os

os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"  # before gradio is imported
# The proxies of the Hub have private addresses. What they forward tells one visitor from another.
os.environ.setdefault("FORWARDED_ALLOW_IPS", "10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,127.0.0.1")

from docsplit_hf.apps.page.page import launch_page, make_page
from docsplit_hf.apps.page.sessions import PageLimits, SharedModel

LIMITS = PageLimits(rows=5_000)  # a Space is shared by many
# Everybody may reach a Space, so any name will do. Requests from pages of other sites are refused all the same.
HOSTS = ["*", *filter(None, [os.environ.get("SPACE_HOST")])]

page = make_page(SharedModel(os.environ.get("MODEL")), LIMITS)
launch_page(page, LIMITS, allowed_hosts=HOSTS)
