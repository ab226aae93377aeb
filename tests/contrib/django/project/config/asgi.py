"""The project under ASGI, with the dashboard for staff."""

import os

from django.core.asgi import get_asgi_application

from lockwork.contrib.django import with_dashboard

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
application = with_dashboard(get_asgi_application(), "/admin/lockwork")
